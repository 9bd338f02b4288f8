/* modules.js - the modules of the program that a model was exported from, and the table of their times, for all pages. */

const MOST_DEPTH = 24, MOST_MODULES = 60;

/* A node of the module a.b of the exported program, or of the module /a/b, which was read from its name, or else with
 * the name "a/b/Conv", is in the scopes a and a/b. */
function scopesOf(node) {
  const module = node.module || '', parts = (module || node.name).split(module && module[0] !== '/' ? '.' : '/').filter((p) => p !== '');
  const depth = Math.min(module ? parts.length : parts.length - 1, MOST_DEPTH), scopes = [];
  for (let i = 1; i <= depth; i++) scopes.push(parts.slice(0, i).join('/'));
  return scopes;
}

/* The tree of the scopes of items { scopes, ns }: modules { scope, ns, items, inner }, most expensive first. */
function moduleTree(items) {
  const root = { scope: '', ns: 0, items: [], inner: new Map() };
  const add = (module, item) => {
    module.items.push(item);
    module.ns += item.ns;
  };
  for (const item of items) {
    let at = root;
    add(at, item);
    for (const scope of item.scopes) {
      if (!at.inner.has(scope)) at.inner.set(scope, { scope, ns: 0, items: [], inner: new Map() });
      at = at.inner.get(scope);
      add(at, item);
    }
  }
  const finish = (module) => {
    module.inner = [...module.inner.values()].sort((a, b) => b.ns - a.ns || b.items.length - a.items.length);
    module.inner.forEach(finish);
    /* A module whose items are all in one inner module adds nothing. */
    const only = module.inner[0];
    if (only && only.items.length === module.items.length)
      Object.assign(module, { scope: module === root ? '' : only.scope, inner: only.inner });
  };
  finish(root);
  return root;
}

/* The rows of the modules within one; each folds and unfolds at a click on its mark, by Enter on it, and by the right
 * and left arrow keys on the row. cells(module) are the cells after the first; choose(module) follows a click. */
function moduleRows(parent, depth, cells, choose) {
  const prefix = parent.scope === '' ? 0 : parent.scope.length + 1;
  const make = (module) => {
    let rows = null; /* those of the modules within, while they are shown */
    const remove = () => {
      for (const row of rows) {
        if (row.fold) row.fold();
        row.remove();
      }
      rows = null;
    };
    const mark = module.inner.length === 0 ? el('span', { className: 'mark' })
      : el('button', { className: 'mark', ariaExpanded: 'false', ariaLabel: 'Modules within ' + module.scope, tabIndex: -1,
                       onclick: (e) => { e.stopPropagation(); set(rows === null); } });
    const row = go({ title: module.scope, onclick: () => choose(module) },
                   el('td', { style: { paddingLeft: depth * 14 + 'px' } }, mark, name(module.scope.slice(prefix))), ...cells(module));
    const set = (open) => {
      if (open === (rows !== null) || module.inner.length === 0) return;
      mark.ariaExpanded = '' + open;
      if (!open) { remove(); return; }
      rows = moduleRows(module, depth + 1, cells, choose);
      row.after(...rows);
    };
    row.fold = () => set(false);
    row.addEventListener('keydown', (e) => {
      if (e.key !== 'ArrowRight' && e.key !== 'ArrowLeft') return;
      set(e.key === 'ArrowRight');
      e.preventDefault();
      e.stopPropagation();
    });
    return row;
  };
  const shown = parent.inner.slice(0, MOST_MODULES).map(make), others = parent.inner.slice(MOST_MODULES);
  const more = go({ onclick: () => {
    const added = others.map(make);
    more.replaceWith(...added);
    shown.splice(-1, 1, ...added);
  } }, el('td', { colSpan: 9, className: 'faint' }, others.length + ' more'));
  if (others.length > 0) shown.push(more);
  return shown;
}

/* A table of modules with heading and columns; null if the items have fewer than two modules. */
function moduleTable(items, columns, cells, choose) {
  const root = moduleTree(items);
  return root.inner.length < 2 ? null
    : el('table', { className: 'modules' }, heads('module', ...columns), moduleRows(root, 0, cells, choose));
}
