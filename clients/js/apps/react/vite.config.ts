import { defineConfig } from "vite";
import react from "@vitejs/plugin-react";

// REACT=18 builds the same app with the version before.
const alias = process.env.REACT === "18"
  ? [
      { find: /^react-dom(?=\/|$)/, replacement: "react-dom-18" },
      { find: /^react(?=\/|$)/, replacement: "react-18" },
    ]
  : [];

export default defineConfig({ plugins: [react()], resolve: { alias } });
