// Runs shared vectors (docs/protocol/vectors) on a Fold of static/fold.js. Gives what went wrong, as texts.

export function runVectors(Fold, vectors) {
  return vectors.map((vector) => run(Fold, vector)).filter(Boolean);
}

const rowsOf = (fold) => fold.rows.map(({ row, rev }) => (rev === 1 ? row : `${row}@${rev}`));
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

function run(Fold, { name, steps }) {
  const fold = new Fold();
  for (const [n, step] of steps.entries()) {
    const wrong = (what) => `${name}, step ${n}: ${what}`;
    if (!("frame" in step)) {
      fold.rewind();
      if (fold.position !== step.connect) return wrong(`offers ${fold.position}`);
      continue;
    }
    const took = fold.take(step.frame);
    const gap = fold.position === null ? "restart" : "reconnect";
    const did = { snapshot: "show", delta: "show", none: "nothing", gap }[took];
    if (did !== step.do) return wrong(`${did}, not ${step.do}`);
    const got = [fold.position, rowsOf(fold)];
    if (!same(got, [step.position, step.rows])) return wrong(JSON.stringify(got));
    const drops = fold.drops.map(({ drop, free }) => `${drop}=${free}`);
    if (step.drops && !same(drops, step.drops)) return wrong(`drops ${drops}`);
    const periods = ["all", "session", "day", "week", "month"].filter((period) => period in fold.totals);
    const gifts = periods.map((period) => `${period}=${fold.totals[period].gifts}`);
    if (step.gifts && !same(gifts, step.gifts)) return wrong(`gifts ${gifts}`);
    const goals = fold.goals.map(({ goal, value }) => `${goal}=${value}`);
    if (step.goals && !same(goals, step.goals)) return wrong(`goals ${goals}`);
    const find = (id) => fold.rows.find(({ row }) => row === id);
    for (const [id, count] of Object.entries(step.counts ?? {})) {
      if (find(id)?.count !== count) return wrong(`the count of ${id}`);
    }
    for (const [id, amount] of Object.entries(step.amounts ?? {})) {
      if (find(id)?.value?.amount !== amount) return wrong(`the amount of ${id}`);
    }
  }
  return null;
}
