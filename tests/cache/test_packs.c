/* Files of packed weights: which are reused, which are not, and damaged or foreign files. */
#include "base/cache_folder.h"
#include "folder.h"
#include "plan/packs/pack_file.h"
#include "plan/packs/packs.h"
#include "threads/threads.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { LARGE = 300000, SMALL = 100 };

static const partition_provider maker = { .name = "maker", .build_id = "1" };
static char log_text[1024];

static void keep_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    (void)level;
    (void)snprintf(log_text, sizeof log_text, "%s", text);
}

static struct packs *open_packs(const struct folder *folder, uint64_t model)
{
    const packs_place place = { .dir = folder->path, .max_bytes = 1 << 28, .log = keep_log };
    struct packs *packs = packs_open(&place, model, &maker, 1);

    assert_non_null(packs);
    return packs;
}

/* Takes the packed weights of a key. Fills them with a pattern of that key, or checks the pattern. */
static bool take_and_check(struct packs *packs, const partition_provider *provider, uint32_t key, uint64_t bytes)
{
    uint32_t known = 7;
    void *data = NULL;

    assert_int_equal(packs_take(packs, provider, &key, sizeof key, bytes, &data, &known), INLAY_OK);
    assert_int_equal((uintptr_t)data % 64, 0);
    for (uint64_t i = 0; i < bytes; i++) {
        if (known == 0)
            ((unsigned char *)data)[i] = (unsigned char)(key + i * 7);
        else
            assert_int_equal(((unsigned char *)data)[i], (unsigned char)(key + i * 7));
    }
    if (known == 0)
        packs_keep(packs, data);
    return known != 0;
}

/* Returns how many of the keys [0, count) are cached; fills the others. */
static int open_and_take(const struct folder *folder, uint64_t model, uint32_t count, uint64_t bytes)
{
    struct packs *packs = open_packs(folder, model);
    int found = 0;

    for (uint32_t k = 0; k < count; k++)
        found += take_and_check(packs, &maker, k, bytes + k);
    assert_int_equal(packs_counted(packs).found, found);
    assert_int_equal(packs_counted(packs).made, count - (uint32_t)found);
    packs_commit(packs);
    packs_close(packs);
    return found;
}

static void reused(void **state)
{
    struct folder folder = folder_make();

    (void)state;
    assert_int_equal(open_and_take(&folder, 1, 5, SMALL), 0);
    assert_int_equal(open_and_take(&folder, 1, 5, SMALL), 5);
    assert_int_equal(open_and_take(&folder, 2, 5, SMALL), 0); /* another model */
    assert_int_equal(open_and_take(&folder, 1, 9, SMALL), 5); /* more keys of the same model: another file */
    assert_int_equal(folder_count(&folder, "", ".packs", NULL), 3);
    assert_int_equal(open_and_take(&folder, 1, 9, SMALL), 9);
    assert_int_equal(open_and_take(&folder, 1, 9, LARGE), 0); /* the same keys, other sizes; a separate file */
    assert_int_equal(open_and_take(&folder, 1, 9, LARGE), 9);
    assert_int_equal(open_and_take(&folder, 1, 9, SMALL), 9);
    assert_int_equal(folder_count(&folder, "", ".new", NULL), 0);
    folder_remove(&folder);
}

static void other_makers_do_not_match(void **state)
{
    static const partition_provider others[] = { { .name = "other", .build_id = "1" },
                                                 { .name = "maker", .build_id = "2" },
                                                 { .name = "maker", .build_id = "1", .settings_hash = 3 } };
    const partition_provider unknown = { .name = "maker" };
    struct folder folder = folder_make();
    uint32_t key = 0, known;
    void *data;
    struct packs *packs;

    (void)state;
    assert_int_equal(open_and_take(&folder, 1, 1, SMALL), 0);
    packs = open_packs(&folder, 1);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(take_and_check(packs, &others[i], 0, SMALL));
    assert_true(take_and_check(packs, &maker, 0, SMALL));
    assert_int_equal(packs_take(packs, &unknown, &key, sizeof key, SMALL, &data, &known), INLAY_UNSUPPORTED);
    packs_close(packs); /* never committed: nothing is written */
    assert_int_equal(folder_count(&folder, "", ".packs", NULL), 1);
    folder_remove(&folder);
}

static void uncommitted_is_lost(void **state)
{
    struct folder folder = folder_make();
    uint32_t key = 0, known;
    void *data, *again;
    struct packs *packs = open_packs(&folder, 1);

    (void)state;
    assert_int_equal(packs_take(packs, &maker, &key, sizeof key, SMALL, &data, &known), INLAY_OK);
    /* Not filled yet: a second request is declined. */
    assert_int_equal(packs_take(packs, &maker, &key, sizeof key, SMALL, &again, &known), INLAY_UNSUPPORTED);
    memset(data, 1, SMALL);
    assert_false(take_and_check(packs, &maker, 1, SMALL));
    packs_commit(packs);
    packs_close(packs);
    packs = open_packs(&folder, 1);
    assert_true(take_and_check(packs, &maker, 1, SMALL));
    assert_false(take_and_check(packs, &maker, 0, SMALL));
    packs_close(packs);
    folder_remove(&folder);
}

/* The memory of a pack; NULL: it is not filled yet. */
static const void *filled(struct packs *packs, uint32_t key, uint64_t bytes)
{
    uint32_t known = 0;
    void *data = NULL;

    assert_int_equal(packs_take(packs, &maker, &key, sizeof key, bytes, &data, &known), INLAY_OK);
    return known != 0 ? data : NULL;
}

/* Sessions of one model in a process share the packs of the first one, even before they are in a file, and after it was
 * closed. */
static void shared_in_a_process(void **state)
{
    struct folder folder = folder_make();
    struct packs *first = open_packs(&folder, 1), *second, *third, *other;
    const void *kept[4];
    uint32_t key = 4, known = 7;
    void *unfilled;

    (void)state;
    for (uint32_t k = 0; k < 4; k++) {
        assert_false(take_and_check(first, &maker, k, LARGE));
        kept[k] = filled(first, k, LARGE);
        assert_non_null(kept[k]);
    }
    assert_int_equal(packs_take(first, &maker, &key, sizeof key, LARGE, &unfilled, &known), INLAY_OK);
    second = open_packs(&folder, 1);
    for (uint32_t k = 0; k < 4; k++)
        assert_ptr_equal(filled(second, k, LARGE), kept[k]);
    assert_int_equal(packs_counted(second).found, 4);
    assert_int_equal(packs_counted(second).mapped_bytes, 4 * LARGE);
    assert_null(filled(second, 4, LARGE));                  /* the first session is filling it */
    assert_false(take_and_check(second, &maker, 0, SMALL)); /* another size */
    other = open_packs(&folder, 2);
    assert_false(take_and_check(other, &maker, 0, LARGE)); /* another model */
    packs_close(other);
    packs_commit(first);
    packs_close(first);
    third = open_packs(&folder, 1); /* borrows, though the packs are in a file now */
    for (uint32_t k = 0; k < 4; k++) {
        assert_ptr_equal(filled(third, k, LARGE), kept[k]);
        assert_true(take_and_check(second, &maker, k, LARGE));
    }
    packs_commit(second);
    packs_close(second);
    for (uint32_t k = 0; k < 4; k++)
        assert_true(take_and_check(third, &maker, k, LARGE));
    packs_close(third);
    assert_int_equal(open_and_take(&folder, 1, 4, LARGE), 1); /* the sizes of the others differ */
    folder_remove(&folder);
}

enum { SHARERS = 4, SHARE_ROUNDS = 30 };

static void *share(void *arg)
{
    const struct folder *folder = arg;
    uintptr_t wrong = 0;

    for (uint32_t round = 0; round < SHARE_ROUNDS; round++) {
        const packs_place place = { .dir = folder->path, .max_bytes = 1 << 28 };
        struct packs *packs = packs_open(&place, 1, &maker, 1);

        for (uint32_t key = 0; key < 8; key++) {
            unsigned char *data = NULL;
            void *taken = NULL;
            uint32_t known = 0;

            if (packs_take(packs, &maker, &key, sizeof key, SMALL, &taken, &known) != INLAY_OK)
                continue;
            data = taken;
            for (uint32_t i = 0; i < SMALL; i++) {
                if (known == 0)
                    data[i] = (unsigned char)(key + i);
                wrong += data[i] != (unsigned char)(key + i);
            }
            if (known == 0)
                packs_keep(packs, data);
        }
        packs_commit(packs);
        packs_close(packs);
    }
    return (void *)wrong;
}

static void shared_by_threads(void **state)
{
    struct folder folder = folder_make();
    pthread_t threads[SHARERS];

    (void)state;
    for (uint32_t i = 0; i < SHARERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, share, &folder), 0);
    for (uint32_t i = 0; i < SHARERS; i++) {
        void *wrong = NULL;

        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    folder_remove(&folder);
}

static void without_files(void **state)
{
    uint32_t key = 0, known;
    void *data;

    (void)state;
    assert_null(packs_open(&(packs_place){ .dir = "", .max_bytes = 1 }, 1, &maker, 1));
    assert_null(packs_open(&(packs_place){ .dir = "/tmp", .max_bytes = 0 }, 1, &maker, 1));
    assert_int_equal(packs_take(NULL, &maker, &key, sizeof key, SMALL, &data, &known), INLAY_UNSUPPORTED);
    packs_keep(NULL, &key);
    packs_commit(NULL);
    packs_close(NULL);
}

/* Every byte except padding is checked; a damaged file is written again. */
static void damaged(void **state)
{
    static const long places[] = { 0, 7, 9, 12, 16, 24, 32, 40, 48, 56, 4096, 4096 + SMALL - 1, -1, -8, -20, -39 };
    struct folder folder = folder_make();
    char path[512];
    struct stat st;

    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        assert_int_equal(open_and_take(&folder, 1, 3, SMALL), 0);
        assert_int_equal(folder_count(&folder, "", ".packs", path), 1);
        folder_flip(path, places[i], true);
        log_text[0] = '\0';
        assert_int_equal(open_and_take(&folder, 1, 3, SMALL), places[i] >= 4096 ? 2 : 0);
        assert_non_null(strstr(log_text, "is damaged"));
        assert_int_equal(folder_count(&folder, "", ".packs", path), 1);
        assert_int_equal(open_and_take(&folder, 1, 3, SMALL), 3);
        assert_int_equal(unlink(path), 0);
    }
    for (long cut = 0; cut < 4096 + 500; cut += cut < 200 ? 13 : 211) { /* too short, or too long */
        assert_int_equal(open_and_take(&folder, 1, 3, SMALL), 0);
        assert_int_equal(folder_count(&folder, "", ".packs", path), 1);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(truncate(path, cut == 0 ? st.st_size + 1 : st.st_size - cut > 0 ? st.st_size - cut : 0), 0);
        assert_int_equal(open_and_take(&folder, 1, 3, SMALL), 0);
        assert_int_equal(open_and_take(&folder, 1, 3, SMALL), 3);
        assert_int_equal(unlink(path), 0);
    }
    folder_remove(&folder);
}

/* The file of another model under this name; a folder, a link and a FIFO instead of the file. */
static void foreign(void **state)
{
    struct folder folder = folder_make();
    char one[512], two[512];

    (void)state;
    assert_int_equal(open_and_take(&folder, 1, 2, SMALL), 0);
    assert_int_equal(folder_count(&folder, "", ".packs", one), 1);
    (void)snprintf(two, sizeof two, "%.500s.old", one);
    assert_int_equal(rename(one, two), 0);
    assert_int_equal(open_and_take(&folder, 2, 2, SMALL), 0);
    assert_int_equal(folder_count(&folder, "", ".packs", one), 1);
    assert_int_equal(rename(two, one), 0); /* the file of model 1 under the name of model 2 */
    assert_int_equal(open_and_take(&folder, 2, 2, SMALL), 0);
    assert_int_equal(open_and_take(&folder, 2, 2, SMALL), 2);
    assert_int_equal(unlink(one), 0);
    assert_int_equal(symlink("/etc/passwd", one), 0);
    assert_int_equal(open_and_take(&folder, 2, 2, SMALL), 0);
    assert_int_equal(unlink(one), 0);
    assert_int_equal(mkfifo(one, 0600), 0);
    assert_int_equal(open_and_take(&folder, 2, 2, SMALL), 0);
    folder_remove(&folder);
}

/* A limit of the cache, a limit on file sizes, a read-only folder: sessions work, and nothing new is cached. */
static void no_room(void **state)
{
    struct folder folder = folder_make();
    const packs_place little = { .dir = folder.path, .max_bytes = SMALL + 10, .log = keep_log };
    uint32_t key = 5, known;
    void *data;
    struct packs *packs;
    pid_t child;
    int status;

    (void)state;
    packs = packs_open(&little, 1, &maker, 1);
    assert_int_equal(packs_take(packs, &maker, &key, sizeof key, SMALL, &data, &known), INLAY_OK);
    assert_int_equal(packs_take(packs, &maker, &known, sizeof known, SMALL, &data, &known), INLAY_UNSUPPORTED);
    packs_close(packs);

    child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* a write beyond this limit raises a signal */
        const struct rlimit limit = { 1000, 1000 };

        (void)threads_set_limit(1);
        (void)setrlimit(RLIMIT_FSIZE, &limit);
        log_text[0] = '\0';
        _exit(open_and_take(&folder, 1, 3, LARGE) == 0 && strstr(log_text, "too large") != NULL &&
                      folder_count(&folder, "", "", NULL) == 2 /* . and .. */
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);

    assert_int_equal(open_and_take(&folder, 1, 2, SMALL), 0);
    assert_int_equal(chmod(folder.path, 0500), 0);
    assert_int_equal(open_and_take(&folder, 1, 2, SMALL), 2);
    if (geteuid() != 0) { /* permissions do not apply to root */
        packs = open_packs(&folder, 2);
        assert_int_equal(packs_take(packs, &maker, &key, sizeof key, SMALL, &data, &known), INLAY_UNSUPPORTED);
        packs_close(packs);
    }
    folder_remove(&folder);
}

/* Several processes that start, write and read concurrently. */
static void concurrent_processes(void **state)
{
    enum { PROCESSES = 4, ROUNDS = 30 };
    struct folder folder = folder_make();
    pid_t children[PROCESSES];
    int status;

    (void)state;
    for (int c = 0; c < PROCESSES; c++) {
        children[c] = fork();
        assert_true(children[c] >= 0);
        if (children[c] == 0) {
            log_text[0] = '\0';
            (void)threads_set_limit(1); /* OpenMP's threads do not exist after a fork */
            for (int r = 0; r < ROUNDS; r++)
                (void)open_and_take(&folder, (uint64_t)(r / 10), 4 + (uint32_t)(r % 3), r % 2 == 0 ? SMALL : LARGE);
            _exit(strstr(log_text, "is damaged") == NULL ? 0 : 1);
        }
    }
    for (int c = 0; c < PROCESSES; c++) {
        assert_int_equal(waitpid(children[c], &status, 0), children[c]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(folder_count(&folder, "", ".new", NULL), 0);
    folder_remove(&folder);
}

/* A writer that is killed at any moment leaves a complete file or none. */
static void killed(void **state)
{
    struct folder folder = folder_make();
    int status;

    (void)state;
    for (int round = 0; round < 24; round++) {
        const struct timespec moment = { 0, round * round * 20000L };
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            (void)threads_set_limit(1);
            for (uint64_t model = 1;; model++)
                (void)open_and_take(&folder, model % 4, 5, LARGE);
        }
        (void)nanosleep(&moment, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        log_text[0] = '\0';
        for (uint64_t model = 0; model < 4; model++)
            (void)open_and_take(&folder, model, 5, LARGE); /* checks the cached data */
        assert_string_equal(log_text, "");
        for (uint64_t model = 0; model < 4; model++)
            assert_int_equal(open_and_take(&folder, model, 5, LARGE), 5);
        if (round % 8 == 0)
            (void)folder_clear(&folder, ".packs");
    }
    folder_remove(&folder);
}

/* A folder on a file system that becomes full between the check and the write. */
static void full(void **state)
{
    struct folder folder = folder_make();
    pid_t child = fork();
    int status;

    (void)state;
    assert_true(child >= 0);
    if (child == 0) { /* in a separate mount namespace, which removes the mount at exit */
        char path[512], block[4096] = { 0 };
        uint32_t known = 0, key = 1;
        void *data = NULL;
        struct packs *packs;
        int fd;

        (void)threads_set_limit(1);
        if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("none", folder.path, "tmpfs", 0, "size=4m") != 0)
            _exit(77);
        packs = open_packs(&folder, 1);
        if (packs_take(packs, &maker, &key, sizeof key, LARGE, &data, &known) != INLAY_OK || known != 0)
            _exit(1);
        memset(data, 1, LARGE);
        packs_keep(packs, data);
        (void)snprintf(path, sizeof path, "%s/filler", folder.path);
        fd = open(path, O_WRONLY | O_CREAT, 0600);
        while (write(fd, block, sizeof block) == (ssize_t)sizeof block)
            ;
        (void)close(fd);
        log_text[0] = '\0';
        packs_commit(packs);
        packs_close(packs);
        if (strstr(log_text, "No space") == NULL || strchr(log_text, '\n') != NULL ||
            folder_count(&folder, "", ".packs", NULL) + folder_count(&folder, "", ".new", NULL) != 0)
            _exit(2);
        packs = open_packs(&folder, 1); /* also full from the start: nothing can be cached */
        if (packs_take(packs, &maker, &key, sizeof key, LARGE, &data, &known) != INLAY_UNSUPPORTED)
            _exit(3);
        packs_close(packs);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    folder_remove(&folder);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(); /* not allowed to mount */
    assert_int_equal(status, 0);
}

/* The least recently used files are removed first. */
static void bounded(void **state)
{
    struct folder folder = folder_make();
    char path[512];
    time_t now = time(NULL);

    (void)state;
    for (int i = 0; i < 6; i++) {
        const struct timespec used[] = { { now - 100 + i, 0 }, { now - 100 + i, 0 } };

        (void)snprintf(path, sizeof path, "%s/%d.kind", folder.path, (i * 5) % 6); /* 0 5 4 3 2 1 */
        assert_true(cache_folder_write(path, (const cache_folder_part[]){ { "12345", 5 }, { "67890", 5 } }, 2));
        assert_int_equal(utimensat(AT_FDCWD, path, used, 0), 0);
    }
    (void)snprintf(path, sizeof path, "%s/left.kind.1.1.new", folder.path);
    assert_true(cache_folder_write(path, NULL, 0));
    cache_folder_trim(folder.path, ".kind", 45, 100);
    assert_int_equal(folder_count(&folder, "", ".kind", NULL), 4);
    assert_int_equal(folder_count(&folder, "", "0.kind", NULL) + folder_count(&folder, "", "5.kind", NULL), 0);
    /* the process that writes this file may still be active */
    assert_int_equal(folder_count(&folder, "", ".new", NULL), 1);
    assert_int_equal(utimensat(AT_FDCWD, path, (const struct timespec[]){ { now - 9999, 0 }, { now - 9999, 0 } }, 0),
                     0);
    cache_folder_trim(folder.path, ".kind", 1000, 2);
    assert_int_equal(folder_count(&folder, "", ".kind", NULL), 2);
    assert_int_equal(folder_count(&folder, "", ".new", NULL), 0);
    cache_folder_trim("/nowhere/at/all", ".kind", 1, 1);
    folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reused),
        cmocka_unit_test(other_makers_do_not_match),
        cmocka_unit_test(uncommitted_is_lost),
        cmocka_unit_test(shared_in_a_process),
        cmocka_unit_test(shared_by_threads),
        cmocka_unit_test(without_files),
        cmocka_unit_test(damaged),
        cmocka_unit_test(foreign),
        cmocka_unit_test(no_room),
        cmocka_unit_test(concurrent_processes),
        cmocka_unit_test(killed),
        cmocka_unit_test(full),
        cmocka_unit_test(bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
