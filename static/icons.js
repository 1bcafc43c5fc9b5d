/**
 * Small drawings of common gifts, for producers that send no icon. Drawn here, so that they need no
 * request, no host and no emoji font. Each is a list of [path, fill] on a field of 24 × 24; a third
 * entry is a stroke instead of a fill.
 */

const BOX = [
  ["M4 11h16v9a1.5 1.5 0 0 1-1.5 1.500h-13A1.5 1.5 0 0 1 4 20z", "#f472b6"],
  ["M3 7.500h18v4H3z", "#ec4899"],
  ["M10.5 7.500h3v14h-3z", "#fde68a"],
  ["M12 7.500c-4.5 0-6.5-1.2-6.5-3a2 2 0 0 1 2.1-2C9.8 2.5 12 5 12 7.500zm0 0c4.5 0 6.5-1.2 6.5-3a2 2 0 0 0-2.1-2C14.2 2.5 12 5 12 7.500z", "#fbbf24"],
];

const ROSE = [
  ["M11.2 13h1.600v9.500h-1.600z", "#16a34a"],
  ["M12.3 20c.5-2.7 2.5-4.2 5.7-4.2-.2 2.9-2.4 4.4-5.7 4.200z", "#22c55e"],
  ["M12 1.500c3.2 0 6.2 2.6 6.2 6.500s-3 6.7-6.2 6.700S5.8 11.9 5.8 8 8.8 1.5 12 1.500z", "#fb7185"],
  ["M12 4c2 1 3.1 2.3 3.1 4a3.1 3.1 0 0 1-6.2 0c0-1.7 1.1-3 3.1-4z", "#9f1239"],
  ["M5.9 7c2.6.4 4.6 2.5 6.1 7.700C8.5 14.7 5.6 12 5.9 7zm12.2 0c-2.6.4-4.6 2.5-6.1 7.7 3.5 0 6.4-2.7 6.1-7.700z", "#e11d48"],
];

const COFFEE = [
  ["M8 3c1.4 1.2-.9 2.1.3 3.700M12 3c1.4 1.2-.9 2.1.3 3.7", "none", "#a8a29e"],
  ["M17 10.500h1.300a3.2 3.2 0 0 1 0 6.400h-2.100v-1.900h2.100a1.3 1.3 0 0 0 0-2.600H17z", "#ea580c"],
  ["M4.5 9H17v6.500A4.5 4.5 0 0 1 12.5 20H9a4.5 4.5 0 0 1-4.5-4.500z", "#fb923c"],
  ["M4.5 9H17v2.200H4.500z", "#7c2d12"],
  ["M3.5 21h14.500v1.400H3.500z", "#ea580c"],
];

const HEART = [
  ["M12 21S3 15.2 3 8.900C3 6 5.2 4 7.7 4c1.8 0 3.4 1 4.3 2.600C12.9 5 14.5 4 16.3 4 18.8 4 21 6 21 8.9 21 15.2 12 21 12 21z", "#a855f7"],
  ["M5.2 9c0-1.9 1-3.1 2.6-3.3.8-.1 1 1 .2 1.2-1 .2-1.5 1-1.5 2.1 0 .9-1.3.9-1.3 0z", "#f3e8ff"],
];

const CAKE = [
  ["M4 14h16v6.500a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1z", "#fbcfe8"],
  ["M4 17.500h16V19H4z", "#f472b6"],
  ["M4 14c0-2 1.5-3 3-3h10c1.5 0 3 1 3 3v1.300c-1.3 1.7-2.7 1.7-4 0-1.3 1.7-2.7 1.7-4 0-1.3 1.7-2.7 1.7-4 0-1.3 1.7-2.7 1.7-4 0z", "#fb7185"],
  ["M11.2 6h1.600v5h-1.600z", "#60a5fa"],
  ["M12 1.800c1.3 1.4 1.7 2.1 1.7 2.900a1.7 1.7 0 0 1-3.4 0c0-.8.4-1.5 1.7-2.900z", "#fbbf24"],
];

const CROWN = [
  ["M2.8 6.500l4.8 4.200L12 3.500l4.4 7.2 4.8-4.200L19 18H5z", "#fbbf24"],
  ["M5 18h14v2.800H5z", "#f59e0b"],
  ["M12 12.800a1.7 1.7 0 1 1 0 3.4 1.7 1.7 0 0 1 0-3.400z", "#ef4444"],
  ["M7.9 14a1.1 1.1 0 1 1 0 2.2 1.1 1.1 0 0 1 0-2.200zm8.2 0a1.1 1.1 0 1 1 0 2.2 1.1 1.1 0 0 1 0-2.200z", "#38bdf8"],
];

const ROCKET = [
  ["M9.3 16.500h5.400c0 2.6-1 4.6-2.7 6.2-1.7-1.6-2.7-3.6-2.7-6.200z", "#fbbf24"],
  ["M7 11.300L3.3 16v4.200L8 16.500zm10 0l3.7 4.700v4.200L16 16.500z", "#e11d48"],
  ["M12 1.300c3.6 2.5 5.2 6.2 5.2 9.7 0 2-.5 4-1.1 5.500H7.900C7.3 15 6.8 13 6.8 11c0-3.5 1.6-7.2 5.2-9.700z", "#cbd5e1"],
  ["M12 1.300c2 1.4 3.4 3.2 4.2 5.200H7.800c.8-2 2.2-3.8 4.2-5.200z", "#f43f5e"],
  ["M12 8.300a2.3 2.3 0 1 1 0 4.6 2.3 2.3 0 0 1 0-4.600z", "#0284c7"],
];

const CAR = [
  ["M1.8 15c0-1.5.9-2.4 2.6-2.700L7 8.700c.5-.8 1.2-1.2 2.2-1.200h5c1 0 1.9.4 2.5 1.200l2.7 3.400c1.8.2 2.8 1.3 2.8 2.900v2.300H1.800z", "#ef4444"],
  ["M8.4 9.200h3.100V12H6.700zM12.7 9.200h1.500c.5 0 .9.2 1.2.6L17.1 12h-4.400z", "#e0f2fe"],
  ["M7 14.700a2.6 2.6 0 1 1 0 5.2 2.6 2.6 0 0 1 0-5.200zm10 0a2.6 2.6 0 1 1 0 5.2 2.6 2.6 0 0 1 0-5.200z", "#334155"],
  ["M7 16.200a1.1 1.1 0 1 1 0 2.2 1.1 1.1 0 0 1 0-2.200zm10 0a1.1 1.1 0 1 1 0 2.2 1.1 1.1 0 0 1 0-2.200z", "#cbd5e1"],
];

const CASTLE = [
  ["M5 1.800h.9v5H5zM18.1 1.800h.9v5h-.9z", "#94a3b8"],
  ["M5.9 1.900l3.1 1.2-3.1 1.200zM19 1.900l3.1 1.200L19 4.300z", "#f43f5e"],
  ["M2.8 6.800h1.700v1.500h1.700V6.800H8v14.500H2.800zM16 6.800h1.700v1.500h1.700V6.800h1.800v14.500H16z", "#a78bfa"],
  ["M8 11h1.500v1.500h1.700V11h1.700v1.500h1.600V11H16v10.300H8z", "#8b5cf6"],
  ["M10.3 21.300v-2.800a1.7 1.7 0 0 1 3.4 0v2.800zM4.7 11.500h1.500V14H4.700zm13.1 0h1.500V14h-1.500z", "#4c1d95"],
];

const LANTERN = [
  ["M11.3 18.500h1.400v4h-1.400z", "#fbbf24"],
  ["M9 2.800h6v2.500H9zM9 16.700h6v2H9z", "#b45309"],
  ["M12 5c4.6 0 7.2 2.5 7.2 6s-2.6 6-7.2 6-7.2-2.5-7.2-6S7.4 5 12 5z", "#ef4444"],
  ["M12 5c1.9 0 2.9 2.5 2.9 6s-1 6-2.9 6-2.9-2.5-2.9-6 1-6 2.9-6z", "#fca5a5"],
];

const FIREWORKS = [
  ["M12 2.500v4M12 17.500v4M2.5 12h4M17.5 12h4", "none", "#f472b6"],
  ["M5.3 5.300l2.8 2.800M15.9 15.900l2.8 2.800M5.3 18.700l2.8-2.800M15.9 8.100l2.8-2.8", "none", "#38bdf8"],
  ["M12 8l1.2 2.7 2.9.3-2.2 1.9.7 2.9-2.6-1.5-2.6 1.5.7-2.900L7.9 11l2.9-.3z", "#facc15"],
];

const LOLLIPOP = [
  ["M11.2 13h1.600v9.500h-1.600z", "#a8a29e"],
  ["M12 1.800a6.4 6.4 0 1 1 0 12.8 6.4 6.4 0 0 1 0-12.800z", "#f472b6"],
  ["M12 8.200c0-1.6 2.4-1.4 2.4.4 0 2.5-4.8 2.7-4.8-.4 0-4 6.6-3.7 6.6.5", "none", "#fce7f3"],
];

const STAR = [["M12 2l3 6.5 7 .8-5.3 4.7 1.5 6.9-6.2-3.5-6.2 3.500L7.3 14 2 9.300l7-.8z", "#facc15"]];

const BY_ID = {
  rose: ROSE, "vip:rose": ROSE, coffee: COFFEE, "coffee-pot": COFFEE, heart: HEART, cake: CAKE, crown: CROWN,
  rocket: ROCKET, car: CAR, "sports car": CAR, castle: CASTLE, lantern: LANTERN, fireworks: FIREWORKS,
  lollipop: LOLLIPOP, star: STAR, clap: STAR,
};

const SVG = "http://www.w3.org/2000/svg";

/** True when this gift has a drawing of its own. */
export function isDrawn(id) {
  return Object.hasOwn(BY_ID, id);
}

/** The drawing of a gift, or a gift box; hidden from screen readers, which hear the name. */
export function drawing(id) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  for (const [d, fill, stroke] of isDrawn(id) ? BY_ID[id] : BOX) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", d);
    path.setAttribute("fill", fill);
    if (stroke) {
      path.setAttribute("stroke", stroke);
      path.setAttribute("stroke-width", "1.6");
      path.setAttribute("stroke-linecap", "round");
    }
    svg.append(path);
  }
  return svg;
}
