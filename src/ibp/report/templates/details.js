// The code to load the model goes to the clipboard, or is at least selected.
byId("copy-code").addEventListener("click", async (event) => {
  const button = event.currentTarget;
  const code = byId("load-code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
});
