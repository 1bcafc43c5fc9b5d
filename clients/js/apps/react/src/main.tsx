import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "tipcast/board";
import { Ticker, useFeed } from "tipcast/react";

const url = new URLSearchParams(location.search).get("url") ?? "https://gateway.example";

function Newest() {
  const { rows } = useFeed({ url, feed: "demo" });
  return <p>{rows.length} rows, the newest from {rows[0]?.user.name ?? "nobody"}</p>;
}

createRoot(document.getElementById("app")!).render(
  <StrictMode>
    <Ticker url={url} feed="demo" max={5} />
    <tipcast-leaders url={url} feed="demo" period="day" by="EUR" max={2} heading="Top two" />
    <tipcast-goal url={url} feed="demo" goal="mic" heading="A microphone" />
    <tipcast-total url={url} feed="demo" period="day" by="EUR" heading="Today" />
    <Newest />
  </StrictMode>,
);
