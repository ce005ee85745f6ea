// Light or dark: as the system says, until the button is pressed. Nothing is stored.
const themeWatchers = [];
const systemDark = window.matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : systemDark.matches;
}

function whenThemeChanges(watcher) {
  themeWatchers.push(watcher);
}

function themeChanged() {
  byId("theme").setAttribute("aria-label", `Switch to the ${isDark() ? "light" : "dark"} theme`);
  for (const watcher of themeWatchers) watcher();
}

byId("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  themeChanged();
});
systemDark.addEventListener("change", themeChanged);

// Paper is white.
let themeOnScreen = null;
window.addEventListener("beforeprint", () => {
  themeOnScreen = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  themeChanged();
});
window.addEventListener("afterprint", () => {
  if (themeOnScreen) document.documentElement.dataset.theme = themeOnScreen;
  else delete document.documentElement.dataset.theme;
  themeChanged();
});
themeChanged();

// The section in view is marked in the navigation.
const sectionLinks = new Map(
  [...document.querySelectorAll(".side nav a")].map((link) => [link.hash.slice(1), link])
);
const sectionsInView = new Set();
const sectionWatcher = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) sectionsInView.add(entry.target.id);
      else sectionsInView.delete(entry.target.id);
    }
    const current = [...sectionLinks.keys()].find((id) => sectionsInView.has(id));
    for (const [id, link] of sectionLinks) {
      if (id !== current) link.removeAttribute("aria-current");
      else if (!link.hasAttribute("aria-current")) {
        link.setAttribute("aria-current", "true");
        const strip = link.closest("nav");
        if (strip.scrollWidth > strip.clientWidth) strip.scrollLeft = link.offsetLeft - strip.offsetLeft - 24;
      }
    }
  },
  { rootMargin: "-15% 0px -60% 0px" }
);
for (const id of sectionLinks.keys()) {
  const section = byId(id);
  if (section) sectionWatcher.observe(section);
}
