#include "plugin/verdict.h"
#include "base/hash.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const words[] = { "none", "ok", "refused", "crashed", "hung" };

/* ------------------------------------------------------------------ in this process
 *
 * A fixed table: the last ones that were heard. Whoever overflows it tries a file again. The registry's lock guards it.
 */
enum { REMEMBERED = 64, SWEPT_FROM = 256 };
static struct remembered {
    uint64_t key, path; /* hashes; 0 = unused */
    struct verdict verdict;
} memory[REMEMBERED];
static uint32_t memory_next;

static uint64_t hash_text(const char *text)
{
    uint64_t h = hash_bytes(text, strlen(text), 0);

    return h != 0 ? h : 1;
}

static struct remembered *recall(const verdict_key *key)
{
    uint64_t hash = hash_text(key->text);

    for (uint32_t i = 0; i < REMEMBERED; i++)
        if (memory[i].key == hash)
            return &memory[i];
    return NULL;
}

/* The path as verdict_key_init wrote it: the second line. */
static uint64_t hash_path(const char *path)
{
    return hash_text(path);
}

static void remember(const verdict_key *key, const struct verdict *verdict)
{
    struct remembered *remembered = recall(key);
    const char *path = strchr(key->text, '\n') + 6; /* behind "\npath " */

    if (remembered == NULL) {
        remembered = &memory[memory_next];
        memory_next = (memory_next + 1) % REMEMBERED;
    }
    remembered->key = hash_text(key->text);
    remembered->path = hash_bytes(path, strcspn(path, "\n"), 0);
    remembered->verdict = *verdict;
}

/* ------------------------------------------------------------------ keys */

/* Names of files may hold line ends; a key must not. */
static void one_line(char *text)
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
    one_line(clean);
    (void)snprintf(key->text, sizeof key->text,
                   "inlay verdict 1\npath %s\nfile %llx %llx %lld %lld.%09ld %lld.%09ld\n"
                   "build %.72s\nhost %.128s\n",
                   clean, (unsigned long long)st->st_dev, (unsigned long long)st->st_ino, (long long)st->st_size,
                   (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, (long long)st->st_ctim.tv_sec,
                   st->st_ctim.tv_nsec, build_id[0] != '\0' ? build_id : "-", host);
    key->file[0] = '\0';
    if (dir != NULL && dir[0] != '\0' && strlen(dir) < PATH_MAX)
        (void)snprintf(key->file, sizeof key->file, "%s/%016llx.verdict", dir, (unsigned long long)hash_path(clean));
}

/* ------------------------------------------------------------------ files */

static size_t append(char *text, size_t at, const char *more)
{
    size_t bytes = strlen(more);

    if (at == 0 || bytes >= VERDICT_FILE - at)
        return 0;
    memcpy(text + at, more, bytes);
    return at + bytes;
}

size_t verdict_compose(const char *key_text, verdict_kind kind, const char *why, char text[VERDICT_FILE])
{
    static const char digits[] = "0123456789abcdef";
    char sum[18] = "0000000000000000\n";
    size_t at = strlen(key_text);
    uint64_t hash;

    if (at >= VERDICT_FILE)
        return 0;
    memcpy(text, key_text, at);
    at = append(text, at, "verdict ");
    at = append(text, at, words[kind]);
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

bool verdict_write(const char *file, const char *text, size_t bytes)
{
    char other[PATH_MAX + 64];
    size_t length = strlen(file), at;
    unsigned long id = (unsigned long)getpid();
    bool ok;
    int fd;

    /* file.PID, without stdio. */
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
    ok = write(fd, text, bytes) == (ssize_t)bytes;
    ok = close(fd) == 0 && ok && rename(other, file) == 0;
    if (!ok)
        (void)unlink(other);
    return ok;
}

static bool read_small(const char *file, char text[VERDICT_FILE])
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    ssize_t n = -1;

    if (fd < 0)
        return false;
    /* A verdict that somebody else wrote might wave a plugin through. */
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == geteuid() || st.st_uid == 0) &&
        (st.st_mode & (S_IWOTH | S_IWGRP)) == 0)
        n = read(fd, text, VERDICT_FILE - 1);
    (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 && strlen(text) == (size_t)n;
}

static bool parse(const verdict_key *key, const char *text, struct verdict *out)
{
    char again[VERDICT_FILE];
    size_t key_bytes = strlen(key->text), bytes;
    const char *at = text + key_bytes, *end;

    if (strncmp(text, key->text, key_bytes) != 0 || strncmp(at, "verdict ", 8) != 0)
        return false;
    at += 8;
    for (uint32_t k = VERDICT_OK; k <= VERDICT_HUNG; k++) {
        size_t n = strlen(words[k]);

        if (strncmp(at, words[k], n) != 0 || strncmp(at + n, "\ntext ", 6) != 0)
            continue;
        at += n + 6;
        end = strchr(at, '\n');
        if (end == NULL || (size_t)(end - at) >= sizeof out->text)
            return false;
        memcpy(out->text, at, (size_t)(end - at));
        out->text[end - at] = '\0';
        out->kind = k;
        /* Written again, it has to come out the same, check sum included. */
        bytes = verdict_compose(key->text, k, out->text, again);
        return bytes == strlen(text) && memcmp(again, text, bytes) == 0;
    }
    return false;
}

void verdict_find(const verdict_key *key, struct verdict *out)
{
    const struct remembered *remembered = recall(key);
    char text[VERDICT_FILE];

    if (remembered != NULL) {
        *out = remembered->verdict;
        return;
    }
    if (key->file[0] == '\0' || !read_small(key->file, text) || !parse(key, text, out))
        *out = (struct verdict){ .kind = VERDICT_NONE };
}

/* Does the verdict speak of a file that is there no more? */
static bool is_orphan(const char *file)
{
    char text[VERDICT_FILE];
    const char *path;

    if (!read_small(file, text) || (path = strstr(text, "\npath ")) == NULL)
        return true;
    path += 6;
    text[(size_t)(path - text) + strcspn(path, "\n")] = '\0';
    return access(path, F_OK) != 0;
}

/* Now and then the folder is rid of files that nobody will ask for. */
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
    if (dir != NULL && count > SWEPT_FROM) {
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

    one_line(clean.text);
    remember(key, &clean);
    if (key->file[0] != '\0') {
        (void)verdict_write(key->file, text, verdict_compose(key->text, clean.kind, clean.text, text));
        sweep(key->file);
    }
}

bool verdict_forget(const char *dir, const char *path)
{
    char clean[PATH_MAX], file[PATH_MAX + 32];
    bool there = false;
    uint64_t hash;

    (void)snprintf(clean, sizeof clean, "%s", path);
    one_line(clean);
    hash = hash_path(clean);
    for (uint32_t i = 0; i < REMEMBERED; i++) {
        if (memory[i].key != 0 && memory[i].path == hash_bytes(clean, strlen(clean), 0)) {
            memory[i].key = 0;
            there = true;
        }
    }
    if (dir != NULL && dir[0] != '\0' && strlen(dir) < PATH_MAX) {
        (void)snprintf(file, sizeof file, "%s/%016llx.verdict", dir, (unsigned long long)hash);
        there = unlink(file) == 0 || there;
    }
    return there;
}
