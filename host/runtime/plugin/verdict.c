#include "plugin/verdict.h"
#include "inlay/check.h"
#include "base/hash.h"
#include "base/output.h"
#include "threads/fork.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const kind_names[] = { "none", "ok", "refused", "crashed", "hung" };

enum { DAY_SECONDS = 86400, HUNG_SECONDS = 600 };

static int64_t lasts_seconds(verdict_kind kind)
{
    return kind == VERDICT_CRASHED ? DAY_SECONDS : kind == VERDICT_HUNG ? HUNG_SECONDS : INT64_MAX;
}

/* In this process.
 *
 * A fixed table of the last verdicts. A file whose verdict was evicted is probed again. */
enum { MAX_CACHED = 64, SWEEP_THRESHOLD = 256 };
static struct cached_verdict {
    uint64_t key, path; /* hashes; 0 = unused */
    int64_t stored;     /* time() */
    struct verdict verdict;
} cached[MAX_CACHED];
static uint32_t next_slot;
static pthread_mutex_t cached_mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the table, and is not held during I/O */

static __attribute__((constructor)) void guard_cached(void)
{
    fork_guard(&cached_mutex);
}

static uint64_t hash_text(const char *text)
{
    uint64_t hash = hash_bytes(text, strlen(text), 0);

    return hash != 0 ? hash : 1;
}

/* The lock is held. */
static struct cached_verdict *find_cached(const verdict_key *key)
{
    uint64_t hash = hash_text(key->text);

    for (uint32_t i = 0; i < MAX_CACHED; i++)
        if (cached[i].key == hash)
            return &cached[i];
    return NULL;
}

/* Hash of a path as verdict_key_init wrote it, in the second line. */
static uint64_t hash_path(const char *path)
{
    return hash_text(path);
}

static void store_cached(const verdict_key *key, const struct verdict *verdict)
{
    struct cached_verdict *cached_verdict;
    const char *path = strchr(key->text, '\n') + 6; /* after "\npath " */

    INLAY_CHECK(strncmp(path - 6, "\npath ", 6) == 0); /* as verdict_key_init() wrote it */
    (void)pthread_mutex_lock(&cached_mutex);
    cached_verdict = find_cached(key);
    if (cached_verdict == NULL) {
        cached_verdict = &cached[next_slot];
        next_slot = (next_slot + 1) % MAX_CACHED;
    }
    cached_verdict->key = hash_text(key->text);
    cached_verdict->path = hash_bytes(path, strcspn(path, "\n"), 0);
    cached_verdict->stored = (int64_t)time(NULL);
    cached_verdict->verdict = *verdict;
    (void)pthread_mutex_unlock(&cached_mutex);
}

/* File names may contain line breaks; a key must not. */
static void replace_line_breaks(char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '\n')
            *text = '?';
}

void verdict_key_init(verdict_key *key, const char *dir, const char *path, const struct stat *st, const char *build_id,
                      const char *host)
{
    char clean[PATH_MAX];

    (void)snprintf(clean, sizeof clean, "%s", path);
    replace_line_breaks(clean);
    (void)snprintf(key->text, sizeof key->text,
                   "inlay verdict 1\npath %s\nfile %llx %llx %lld %lld.%09ld %lld.%09ld\n"
                   "build %.72s\nhost %.128s\n",
                   clean, (unsigned long long)st->st_dev, (unsigned long long)st->st_ino, (long long)st->st_size,
                   (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, (long long)st->st_ctim.tv_sec,
                   st->st_ctim.tv_nsec, build_id[0] != '\0' ? build_id : "-", host);
    key->own = false;
    key->file[0] = '\0';
    if (dir != NULL && dir[0] != '\0' && strlen(dir) < PATH_MAX)
        (void)snprintf(key->file, sizeof key->file, "%s/%016llx.verdict", dir, (unsigned long long)hash_path(clean));
}

static size_t append(char *text, size_t at, const char *more)
{
    size_t bytes = strlen(more);

    if (at == 0 || bytes >= VERDICT_FILE - at)
        return 0;
    memcpy(text + at, more, bytes);
    return at + bytes;
}

/* Composes the text of a verdict file; returns its length, 0 if it does not fit. Async-signal-safe. */
static size_t compose(const char *key_text, verdict_kind kind, const char *why, char text[VERDICT_FILE])
{
    static const char digits[] = "0123456789abcdef";
    char sum[18] = "0000000000000000\n";
    size_t at = strlen(key_text);
    uint64_t hash;

    INLAY_CHECK(kind <= VERDICT_HUNG && at > 0);
    if (at >= VERDICT_FILE)
        return 0;
    memcpy(text, key_text, at);
    at = append(text, at, "verdict ");
    at = append(text, at, kind_names[kind]);
    at = append(text, at, "\ntext ");
    at = append(text, at, why);
    at = append(text, at, "\nsum ");
    if (at == 0)
        return 0;
    hash = hash_bytes(text, at, 0);
    for (int i = 0; i < 16; i++)
        sum[i] = digits[hash >> (60 - 4 * i) & 15];
    return append(text, at, sum);
}

/* Writes the text to a temporary file in the same folder, then renames that file to `file`. Async-signal-safe. */
static bool write_file(const char *file, const char *text, size_t bytes)
{
    char other[PATH_MAX + 64];
    size_t length = strlen(file), at;
    unsigned long id = (unsigned long)gettid();
    bool ok;
    int fd;

    /* file.TID, without stdio: another thread may write a verdict on the same path. */
    if (length + 32 > sizeof other || bytes == 0)
        return false;
    memcpy(other, file, length);
    other[length] = '.';
    for (at = length + 1; at < length + 21; at++, id /= 10)
        other[at] = (char)('0' + id % 10);
    other[at] = '\0';
    fd = open(other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return false;
    ok = output_write(fd, text, bytes);
    ok = close(fd) == 0 && ok && rename(other, file) == 0;
    if (!ok)
        (void)unlink(other);
    return ok;
}

/* out_age: seconds since it was written. Async-signal-safe. */
static bool read_small(const char *file, char text[VERDICT_FILE], int64_t *out_age)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    ssize_t byte_count = -1;

    if (fd < 0)
        return false;
    /* Reject a verdict that another user could have written to admit a plugin. */
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == geteuid() || st.st_uid == 0) &&
        (st.st_mode & (S_IWOTH | S_IWGRP)) == 0)
        byte_count = read(fd, text, VERDICT_FILE - 1);
    if (byte_count > 0)
        *out_age = (int64_t)time(NULL) - (int64_t)st.st_mtim.tv_sec;
    (void)close(fd);
    text[byte_count > 0 ? byte_count : 0] = '\0';
    return byte_count > 0 && strlen(text) == (size_t)byte_count;
}

static bool parse(const verdict_key *key, const char *text, struct verdict *out)
{
    char recomposed[VERDICT_FILE];
    size_t key_bytes = strlen(key->text), bytes;
    const char *at = text + key_bytes, *end;

    if (strncmp(text, key->text, key_bytes) != 0 || strncmp(at, "verdict ", 8) != 0)
        return false;
    at += 8;
    for (uint32_t k = VERDICT_OK; k <= VERDICT_HUNG; k++) {
        size_t byte_count = strlen(kind_names[k]);

        if (strncmp(at, kind_names[k], byte_count) != 0 || strncmp(at + byte_count, "\ntext ", 6) != 0)
            continue;
        at += byte_count + 6;
        end = strchr(at, '\n');
        if (end == NULL || (size_t)(end - at) >= sizeof out->text)
            return false;
        memcpy(out->text, at, (size_t)(end - at));
        out->text[end - at] = '\0';
        out->kind = k;
        /* Composing the verdict again must give the same text, checksum included. */
        bytes = compose(key->text, k, out->text, recomposed);
        return bytes == strlen(text) && memcmp(recomposed, text, bytes) == 0;
    }
    return false;
}

void verdict_find(const verdict_key *key, struct verdict *out)
{
    const struct cached_verdict *cached_verdict;
    char text[VERDICT_FILE];
    int64_t age;

    (void)pthread_mutex_lock(&cached_mutex);
    cached_verdict = find_cached(key);
    if (cached_verdict != NULL &&
        (int64_t)time(NULL) - cached_verdict->stored > lasts_seconds(cached_verdict->verdict.kind))
        cached_verdict = NULL;
    if (cached_verdict != NULL)
        *out = cached_verdict->verdict;
    (void)pthread_mutex_unlock(&cached_mutex);
    if (cached_verdict != NULL)
        return;
    if (key->file[0] == '\0' || !read_small(key->file, text, &age) || !parse(key, text, out) ||
        age > lasts_seconds(out->kind))
        *out = (struct verdict){ .kind = VERDICT_NONE };
    else if (out->kind == VERDICT_OK) /* the others end, or another process may delete them */
        store_cached(key, out);
}

/* Is the verdict's plugin file deleted, or the verdict unreadable? */
static bool is_orphan(const char *file)
{
    char text[VERDICT_FILE];
    const char *path;
    int64_t age;

    if (!read_small(file, text, &age) || (path = strstr(text, "\npath ")) == NULL)
        return true;
    path += 6;
    text[(size_t)(path - text) + strcspn(path, "\n")] = '\0';
    return access(path, F_OK) != 0;
}

/* Deletes orphaned verdicts when the folder has too many entries. */
static void sweep(const char *file)
{
    char path[PATH_MAX + 32 + NAME_MAX];
    const char *slash = strrchr(file, '/');
    int length = slash != NULL ? (int)(slash - file) : 0;
    const struct dirent *entry;
    uint32_t count = 0;
    DIR *dir;

    (void)snprintf(path, sizeof path, "%.*s", length, file);
    dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        count++;
    if (dir != NULL && count > SWEEP_THRESHOLD) {
        rewinddir(dir);
        while ((entry = readdir(dir)) != NULL) {
            (void)snprintf(path, sizeof path, "%.*s/%s", length, file, entry->d_name);
            if (strstr(entry->d_name, ".verdict") != NULL && is_orphan(path))
                (void)unlink(path);
        }
    }
    if (dir != NULL)
        (void)closedir(dir);
}

void verdict_keep(const verdict_key *key, const struct verdict *verdict)
{
    char text[VERDICT_FILE];
    struct verdict clean = *verdict;

    if (verdict->kind == VERDICT_NONE)
        return;
    replace_line_breaks(clean.text);
    store_cached(key, &clean);
    if (key->own && (clean.kind == VERDICT_CRASHED || clean.kind == VERDICT_HUNG))
        return;
    if (key->file[0] != '\0') {
        (void)write_file(key->file, text, compose(key->text, clean.kind, clean.text, text));
        sweep(key->file);
    }
}

/* Crashes with a model.
 *
 * A mark is a verdict whose key has one more line, "model IDENTITY". The functions are called by a signal handler. */

/* FILE.I; false: too long. */
static bool mark_name(const char *file, uint32_t i, char name[PATH_MAX + 64])
{
    const size_t bytes = strlen(file);

    if (bytes + 3 > PATH_MAX + 64)
        return false;
    memcpy(name, file, bytes);
    name[bytes] = '.';
    name[bytes + 1] = (char)('1' + i);
    name[bytes + 2] = '\0';
    return true;
}

static void mark_key(const char *key_text, uint64_t model, char text[VERDICT_KEY])
{
    static const char digits[] = "0123456789abcdef";
    char line[] = "model 0000000000000000\n";

    for (int i = 0; i < 16; i++)
        line[6 + i] = digits[model >> (60 - 4 * i) & 15];
    const size_t bytes = strlen(key_text);

    INLAY_CHECK(bytes + sizeof line <= VERDICT_KEY);
    memcpy(text, key_text, bytes);
    memcpy(text + bytes, line, sizeof line);
}

/* The mark at this place, if it is about the plugin of the key and still counts. */
static bool read_mark(const char *key_text, const char *file, uint32_t i, char text[VERDICT_FILE], int64_t *out_age)
{
    const size_t key_bytes = strlen(key_text);
    char name[PATH_MAX + 64];

    return mark_name(file, i, name) && read_small(name, text, out_age) && *out_age <= DAY_SECONDS &&
           strncmp(text, key_text, key_bytes) == 0 && strncmp(text + key_bytes, "model ", 6) == 0;
}

void verdict_crashes(const char *key_text, const char *file, uint64_t model, crash_marks *out)
{
    char text[VERDICT_FILE], key[VERDICT_KEY];
    int64_t age, least = INT64_MAX;

    *out = (crash_marks){ .count = 0 };
    if (key_text == NULL || file == NULL || file[0] == '\0')
        return;
    mark_key(key_text, model, key);
    for (uint32_t i = 0; i < CRASH_MARKS; i++) {
        const char *why;

        errno = 0;
        if (!read_mark(key_text, file, i, text, &age) || (why = strstr(text, "\ntext ")) == NULL) {
            if (errno == ENOENT) /* marks are stored at the first free place, and deleted together */
                break;
            continue;
        }
        out->count++;
        if (out->this_model)
            continue;
        out->this_model = model != 0 && strncmp(text, key, strlen(key)) == 0;
        if (!out->this_model && age >= least)
            continue;
        least = age;
        (void)snprintf(out->text, sizeof out->text, "%.*s", (int)strcspn(why + 6, "\n"), why + 6);
    }
}

bool verdict_mark_crash(const char *key_text, const char *file, uint64_t model, const char *why)
{
    static char text[VERDICT_FILE], key[VERDICT_KEY],
        name[PATH_MAX + 64]; /* one crash is reported; the stack is small */
    uint32_t place = CRASH_MARKS;
    int64_t age;

    if (strlen(key_text) + 32 > sizeof key)
        return false;
    mark_key(key_text, model != 0 ? model : hash_text(why), key);
    for (uint32_t i = 0; i < CRASH_MARKS; i++) {
        const bool counts = read_mark(key_text, file, i, text, &age);

        if (counts && strncmp(text, key, strlen(key)) == 0) {
            place = i;
            break;
        }
        if (!counts && place == CRASH_MARKS)
            place = i;
    }
    return mark_name(file, place < CRASH_MARKS ? place : 0, name) &&
           write_file(name, text, compose(key, VERDICT_CRASHED, why, text));
}

bool verdict_forget(const char *dir, const char *path)
{
    char clean[PATH_MAX], file[PATH_MAX + 32];
    bool was_known = false;
    uint64_t hash;

    (void)snprintf(clean, sizeof clean, "%s", path);
    replace_line_breaks(clean);
    hash = hash_path(clean);
    (void)pthread_mutex_lock(&cached_mutex);
    for (uint32_t i = 0; i < MAX_CACHED; i++) {
        if (cached[i].key != 0 && cached[i].path == hash_bytes(clean, strlen(clean), 0)) {
            cached[i].key = 0;
            was_known = true;
        }
    }
    (void)pthread_mutex_unlock(&cached_mutex);
    if (dir != NULL && dir[0] != '\0' && strlen(dir) < PATH_MAX) {
        (void)snprintf(file, sizeof file, "%s/%016llx.verdict", dir, (unsigned long long)hash);
        was_known = unlink(file) == 0 || was_known;
        for (uint32_t i = 0; i < CRASH_MARKS; i++) {
            char mark[PATH_MAX + 64];

            was_known = (mark_name(file, i, mark) && unlink(mark) == 0) || was_known;
        }
    }
    return was_known;
}
