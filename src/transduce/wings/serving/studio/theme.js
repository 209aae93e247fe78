// Runs before the page is drawn: the theme that the user has chosen earlier.

try {
  const chosen = localStorage.getItem("transduce-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch { /* the browser keeps nothing: the page follows the system */ }
