import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "tipcast/element";
import "tipcast/react";

createRoot(document.getElementById("app")!).render(
  <StrictMode>
    <tipcast-ticker url="https://gateway.example" feed="demo" max={5} />
  </StrictMode>,
);
