import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "tipcast/board";
import "tipcast/element";
import "tipcast/react";

const url = new URLSearchParams(location.search).get("url") ?? "https://gateway.example";

createRoot(document.getElementById("app")!).render(
  <StrictMode>
    <tipcast-ticker url={url} feed="demo" max={5} />
    <tipcast-leaders url={url} feed="demo" period="day" by="EUR" max={2} heading="Top two" />
    <tipcast-goal url={url} feed="demo" goal="mic" heading="A microphone" />
    <tipcast-total url={url} feed="demo" period="day" by="EUR" heading="Today" />
  </StrictMode>,
);
