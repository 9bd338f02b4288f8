#include "serve/base/load_note.h"
#include <pthread.h>
#include <stdio.h>

static const uint64_t FIRST_LINE_S = 20;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char name[129], what[64];
    uint64_t version, begun_ns;
    uint64_t next_s; /* when the next line is due; 0: there is no load */
    unsigned percent;
} note;

void load_note_begin(const char *name, uint64_t version, uint64_t now_ns)
{
    (void)pthread_mutex_lock(&lock);
    (void)snprintf(note.name, sizeof note.name, "%s", name);
    (void)snprintf(note.what, sizeof note.what, "reading its files and opening its providers");
    note.version = version;
    note.begun_ns = now_ns;
    note.next_s = FIRST_LINE_S;
    note.percent = 0;
    (void)pthread_mutex_unlock(&lock);
}

void load_note_step(const char *what, double fraction)
{
    (void)pthread_mutex_lock(&lock);
    (void)snprintf(note.what, sizeof note.what, "%s", what);
    note.percent = fraction > 0 && fraction <= 1 ? (unsigned)(fraction * 100) : 0;
    (void)pthread_mutex_unlock(&lock);
}

void load_note_end(void)
{
    (void)pthread_mutex_lock(&lock);
    note.next_s = 0;
    (void)pthread_mutex_unlock(&lock);
}

bool load_note_line(uint64_t now_ns, char *out, size_t bytes)
{
    uint64_t seconds;
    bool due;
    int used;

    (void)pthread_mutex_lock(&lock);
    seconds = note.next_s > 0 && now_ns > note.begun_ns ? (now_ns - note.begun_ns) / 1000000000 : 0;
    due = seconds > 0 && seconds >= note.next_s;
    if (due) {
        used = snprintf(out, bytes, "model '%s', version %llu: still being loaded after %llu s: %s", note.name,
                        (unsigned long long)note.version, (unsigned long long)seconds, note.what);
        if (note.percent > 0 && used > 0 && (size_t)used < bytes)
            (void)snprintf(out + used, bytes - (size_t)used, ", %u %%", note.percent);
        while (note.next_s <= seconds)
            note.next_s *= 2;
    }
    (void)pthread_mutex_unlock(&lock);
    return due;
}
