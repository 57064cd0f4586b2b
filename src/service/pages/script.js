// Adds the local time as a title to each time, which pages show in UTC.
const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' });
for (const time of document.querySelectorAll('time')) {
  time.title = local.format(new Date(time.dateTime));
}
