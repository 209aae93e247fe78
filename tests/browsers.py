"""Scripts that tests run inside a page."""

from __future__ import annotations

FAINT_TEXTS = """() => {
  // Texts whose contrast with the colour behind them is below 4.5, or 3 for large ones (WCAG 2.2, 1.4.3).
  const numbers = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, place) => sum + v * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = element => {
    for (let each = element; each; each = each.parentElement) {
      const colour = numbers(getComputedStyle(each).backgroundColor);
      if (colour.length && (colour.length < 4 || colour[3] > 0.99)) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const each of document.querySelectorAll("main *")) {
    const words = [...each.childNodes].filter(node => node.nodeType === 3 && node.textContent.trim());
    if (!words.length || each.closest("title, style") || !each.getClientRects().length) continue;
    const style = getComputedStyle(each), drawn = each.closest("svg") && each.namespaceURI.endsWith("svg");
    const ink = numbers(drawn ? style.fill : style.color), paper = behind(each);
    if (ink.length < 3) continue;
    const [high, low] = [light(ink), light(paper)].sort((a, b) => b - a);
    const large = parseFloat(style.fontSize) >= 24 || parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700;
    if ((high + 0.05) / (low + 0.05) < (large ? 3 : 4.5) - 0.01) found.push(words[0].textContent + ink + paper);
  }
  return found;
}"""
