// Click on the head of a column: the rows in its order, a second click the other way round.
for (const head of document.querySelectorAll("th")) {
  head.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0];
    const column = head.cellIndex;
    const order = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const key = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent;
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      const difference = x === "" || isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
      return order === "descending" ? -difference : difference;
    });
    body.append(...rows);
  });
}
