/* The page: draws the charts and connects the controls with them. */

{
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const switches = [...document.querySelectorAll("#methods input")];
  const view = {
    methods: data.methods,
    lineWidth: data.lineWidth,
    isHidden: (method) => !switches[method].checked,
    get logSteps() { return byId("log-steps").checked; },
    get logValues() { return byId("log-values").checked; },
  };

  const charts = [];
  for (const place of document.querySelectorAll(".charts")) {
    const group = data.groups[place.dataset.group];
    for (const chart of group.charts) charts.push(new Chart(place, chart, group, view));
    place.classList.toggle("single", group.charts.length === 1);
  }

  /** Show what belongs to the chosen task, and what belongs to none. */
  function chooseTask(task) {
    for (const part of document.querySelectorAll("[data-task]")) part.hidden = task !== "" && part.dataset.task !== task;
    for (const place of document.querySelectorAll(".charts")) {
      place.classList.toggle("single", place.querySelectorAll(".chart:not([hidden])").length === 1);
    }
  }

  function isDark() {
    return root.style.colorScheme ? root.style.colorScheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function nameTheme() {
    byId("theme").textContent = isDark() ? "Light mode" : "Dark mode";
  }

  async function copy(button) {
    const code = button.parentElement.querySelector("code");
    getSelection().selectAllChildren(code);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Selected"; // the browser does not let pages of files write: Ctrl+C copies it
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }

  byId("task")?.addEventListener("change", (event) => chooseTask(event.target.value));
  byId("controls").addEventListener("change", (event) => {
    if (event.target.id !== "task") charts.forEach((chart) => chart.draw());
  });
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("theme").addEventListener("click", () => {
    root.style.colorScheme = isDark() ? "light" : "dark";
    nameTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);
  for (const button of document.querySelectorAll(".copy")) button.addEventListener("click", () => copy(button));
  for (const part of document.querySelectorAll("[data-scripted]")) part.hidden = false;
  nameTheme();
}
