// Adds the local time as a title to each time, which pages show in UTC.
const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' });
function addLocalTimes() {
  for (const time of document.querySelectorAll('time')) {
    time.title = local.format(new Date(time.dateTime));
  }
}
addLocalTimes();

// Keeps a live page current, unless it is hidden or somebody uses a form in it.
const SECONDS = 15;
const live = document.querySelector('main[data-live]');
if (live) {
  const note = document.querySelector('footer').appendChild(document.createElement('p'));
  note.textContent = `Updated every ${SECONDS} s`;
  const timer = setInterval(async () => {
    if (document.hidden || live.contains(document.activeElement)) return;
    // An update does not extend the session.
    const answer = await fetch(location.href, { headers: { 'Supercargo-Update': 'live' } }).catch(() => null);
    if (!answer || answer.status >= 500) return;
    if (!answer.ok || answer.redirected) {
      clearInterval(timer);
      note.textContent = 'Updates ended: reload the page';
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const open = [...live.querySelectorAll('details')].map((details) => details.open);
    live.replaceChildren(...page.querySelector('main').childNodes);
    live.querySelectorAll('details').forEach((details, n) => { details.open = open[n] ?? details.open; });
    document.querySelector('footer p').replaceWith(page.querySelector('footer p'));
    addLocalTimes();
  }, SECONDS * 1000);
}
