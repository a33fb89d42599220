// Asks for this page again and replaces the regions marked data-live with their newer copies. A region that has the
// focus or a selection in it is left alone. What acts (data-acts) is never replaced: once what it acts on has changed,
// it becomes inert, and a link says to look again. Nothing is asked while the page is hidden.
"use strict";
(() => {
  const PERIOD = 2000, SLOW = 500, LONGEST = 60000;
  const all = (root, name) => root.querySelectorAll(`[data-${name}]`);
  const twin = (root, name, one) => root.querySelector(`[data-${name}="${CSS.escape(one.dataset[name])}"]`);
  if (!all(document, "live").length) return;
  let period = PERIOD, timer = 0, isAsking = false;

  const isInUse = (region) => {
    const selection = document.getSelection();
    return region.contains(document.activeElement)
      || (selection && !selection.isCollapsed && selection.containsNode(region, true));
  };

  const show = (page) => {
    for (const region of all(document, "live")) {
      const next = twin(page, "live", region);
      if (next && next.outerHTML !== region.outerHTML && !isInUse(region)) region.replaceWith(document.adoptNode(next));
    }
    for (const acts of all(document, "acts")) {
      const next = twin(page, "acts", acts);
      if (next && next.dataset.seen === acts.dataset.seen || acts.inert) continue;
      acts.inert = true;
      const note = document.querySelector(`[data-changed="${CSS.escape(acts.dataset.acts)}"]`);
      if (note) note.hidden = false;
    }
  };

  const update = async () => {
    if (document.hidden || isAsking) return;
    isAsking = true;
    const stale = document.getElementById("stale"), began = performance.now();
    try {
      const answer = await fetch(location.href);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (answer.ok) show(page);
      stale.hidden = answer.ok;
      if (!answer.ok) stale.textContent = page.querySelector(".sentence")?.textContent ?? `Status ${answer.status}`;
    } catch {
      stale.textContent = "The dashboard does not answer. What you see is from before.";
      stale.hidden = false;
    }
    period = performance.now() - began > SLOW ? Math.min(2 * period, LONGEST) : PERIOD;
    isAsking = false;
    plan();
  };
  const plan = () => { clearTimeout(timer); timer = setTimeout(update, period); };
  document.addEventListener("visibilitychange", () => { if (!document.hidden) update(); });
  plan();
})();
