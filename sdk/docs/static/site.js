// The site's only script: the colours that a reader has chosen, copying of code, the contents on narrow screens, search.
'use strict';

const THEMES = ['auto', 'light', 'dark'];

function storedTheme() {
  try {
    return localStorage.getItem('theme') || 'auto';
  } catch {
    return 'auto'; // a browser that stores nothing for this page
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem('theme', theme);
  } catch { /* the choice holds for this page */ }
}

setTheme(storedTheme()); // before anything is drawn

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // not permitted in pages from files by some browsers
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

// ---------------------------------------------------------------- search

let searchIndex = null; // set by search-index.js: [page, its title, anchor, title of the section, text, 1: a guide]

function loadIndex() {
  if (searchIndex || document.getElementById('index'))
    return;
  const script = document.createElement('script');
  script.id = 'index';
  script.src = 'search-index.js';
  script.onload = () => showFound();
  document.head.append(script);
}

// Sections in which every word occurs, best first: words in titles count more than words in the text.
function find(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const section of searchIndex) {
    const [page, title, text] = [section[1], section[3], section[4]].map((part) => part.toLowerCase());
    let score = 4 * section[5]; // guides come before the reference
    const all = words.every((word) => {
      const inTitle = title.includes(word) ? 8 + 8 * (title === word) : 0;
      const inPage = page.includes(word) ? 4 : 0;
      const inText = text.includes(word) ? 1 : 0;
      score += inTitle + inPage + inText;
      return inTitle + inPage + inText > 0;
    });
    if (words.length && all)
      found.push([score, section]);
  }
  return found.sort((a, b) => b[0] - a[0]).slice(0, 12).map(([, section]) => section);
}

function showFound() {
  const list = document.getElementById('found');
  const query = document.querySelector('#search input').value.trim();
  list.hidden = !query || !searchIndex;
  if (list.hidden)
    return;
  list.replaceChildren(...find(query).map(([page, pageTitle, anchor, title, text]) => {
    const item = document.createElement('li'), link = document.createElement('a'), small = document.createElement('small');
    const at = Math.max(0, text.toLowerCase().indexOf(query.toLowerCase().split(/\s+/)[0]) - 30);
    link.href = `${page}.html#${anchor}`;
    link.textContent = title === pageTitle ? title : `${pageTitle}: ${title}`;
    small.textContent = (at ? '... ' : '') + text.slice(at, at + 110);
    link.append(small);
    item.append(link);
    return item;
  }));
  if (!list.children.length)
    list.append(Object.assign(document.createElement('li'), { textContent: 'Nothing found' }));
}

function followKeys(event) {
  const links = [...document.querySelectorAll('#found a')];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === 'Escape') {
    document.getElementById('found').hidden = true;
  } else if (event.key === 'Enter' && event.target.matches('input') && links.length) {
    links[0].click();
  } else if (step && links.length) {
    event.preventDefault();
    const at = links.indexOf(document.activeElement) + step;
    (links[at] || document.querySelector('#search input')).focus();
  }
}

document.addEventListener('DOMContentLoaded', () => {
  const search = document.getElementById('search'), input = search.querySelector('input');
  const theme = document.getElementById('theme'), menu = document.getElementById('menu');

  input.addEventListener('focus', loadIndex);
  input.addEventListener('input', showFound);
  search.addEventListener('keydown', followKeys);
  document.addEventListener('keydown', (event) => {
    if (event.key === '/' && !event.target.matches('input, textarea')) {
      event.preventDefault();
      input.focus();
    }
  });
  document.addEventListener('click', (event) => {
    if (!search.contains(event.target) || event.target.closest('#found a'))
      document.getElementById('found').hidden = true;
  });

  const nameTheme = () => { theme.textContent = `Theme: ${document.documentElement.dataset.theme}`; };
  nameTheme();
  theme.addEventListener('click', () => {
    setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]);
    nameTheme();
  });
  menu.addEventListener('click', () => {
    menu.setAttribute('aria-expanded', String(document.body.classList.toggle('open')));
  });
  const here = document.querySelector('#contents [aria-current]');
  if (here && here.offsetParent)
    document.getElementById('contents').scrollTop = here.offsetTop - 200;

  for (const button of document.querySelectorAll('.copy'))
    button.addEventListener('click', async () => {
      await copyText(button.nextElementSibling.textContent);
      button.textContent = 'Copied';
      setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    });
});
