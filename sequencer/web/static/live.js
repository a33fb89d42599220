// Asks for this page again and replaces the regions marked data-live with their newer copies. A region that has the
// focus or a selection in it is left alone. What acts (data-acts) is never replaced: once what it acts on has changed,
// it becomes inert, and a link offers to reload. Nothing is asked while the page is hidden.
const PERIOD_MS = 2000, SHARE = 4, stale = document.getElementById("stale");
const all = (name) => document.querySelectorAll(`[data-${name}]`);
const same = (root, name, one) => root.querySelector(`[data-${name}="${CSS.escape(one.dataset[name])}"]`);

const isInUse = (region) => {
  const selection = document.getSelection();
  return region.contains(document.activeElement) || (!selection.isCollapsed && selection.containsNode(region, true));
};

const show = (page) => {
  for (const region of all("live")) {
    const next = same(page, "live", region);
    if (next && next.outerHTML !== region.outerHTML && !isInUse(region)) region.replaceWith(document.adoptNode(next));
  }
  for (const acts of all("acts")) {
    if (same(page, "acts", acts)?.dataset.seen === acts.dataset.seen) continue;
    acts.inert = true;
    document.querySelector(`[data-changed="${CSS.escape(acts.dataset.acts)}"]`).hidden = false;
  }
};

const update = async () => {
  const began = performance.now();
  try {
    const answer = await fetch(location.href);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (answer.ok) show(page);
    else stale.textContent = page.querySelector(".sentence")?.textContent ?? `Status ${answer.status}`;
    stale.hidden = answer.ok;
  } catch {
    stale.textContent = "The dashboard is not responding; this page is out of date.";
    stale.hidden = false;
  }
  setTimeout(next, Math.max(PERIOD_MS, SHARE * (performance.now() - began)));
};
const next = () => document.hidden ? document.addEventListener("visibilitychange", next, {once: true}) : update();
if (all("live").length) setTimeout(next, PERIOD_MS);
