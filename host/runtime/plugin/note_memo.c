#include "plugin/note_memo.h"
#include "threads/fork.h"
#include <pthread.h>
#include <stdlib.h>

enum { MOST_READ = 64 };

static struct read_file {
    struct stat st;
    note_facts *facts; /* owned; NULL: unused */
} files[MOST_READ];
static uint32_t next_slot;
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_files(void)
{
    fork_guard(&files_lock);
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* The texts of facts point into its own buffer. */
static void copy_facts(note_facts *out, const note_facts *facts)
{
    const char **texts[] = { &out->name, &out->providers, &out->domains, &out->version };

    *out = *facts;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        *texts[i] = **texts[i] != '\0' ? out->text + (*texts[i] - facts->text) : "";
}

/* The lock is held. */
static const note_facts *find_facts(const struct stat *st)
{
    for (uint32_t i = 0; i < MOST_READ; i++)
        if (files[i].facts != NULL && is_same_file(&files[i].st, st))
            return files[i].facts;
    return NULL;
}

bool note_recall(const struct stat *st, note_facts *out)
{
    const note_facts *found;

    (void)pthread_mutex_lock(&files_lock);
    found = find_facts(st);
    if (found != NULL)
        copy_facts(out, found);
    (void)pthread_mutex_unlock(&files_lock);
    return found != NULL;
}

/* Without memory the file is read again. */
static void remember(const struct stat *st, const note_facts *facts)
{
    note_facts *copy = malloc(sizeof *copy), *oldest = copy;

    if (copy == NULL)
        return;
    copy_facts(copy, facts);
    (void)pthread_mutex_lock(&files_lock);
    if (find_facts(st) == NULL) { /* otherwise another thread has read the same file, too */
        oldest = files[next_slot].facts;
        files[next_slot] = (struct read_file){ *st, copy };
        next_slot = (next_slot + 1) % MOST_READ;
    }
    (void)pthread_mutex_unlock(&files_lock);
    free(oldest);
}

inlay_status note_read_once(int fd, const struct stat *st, note_facts *out, inlay_diag *diag)
{
    inlay_status status;

    if (note_recall(st, out))
        return INLAY_OK;
    status = note_read(fd, (uint64_t)st->st_size, out, diag);
    if (status == INLAY_OK)
        remember(st, out);
    return status;
}
