// Gives each moment, which a page has in UTC, a title that says it in the reader's own time.
const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' });
for (const time of document.querySelectorAll('time')) {
  time.title = local.format(new Date(time.dateTime));
}
