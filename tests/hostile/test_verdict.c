/* Verdict files: a written verdict is read back, and a corrupt one is ignored. */
#include "folder.h"
#include "base/sha256.h"
#include "plugin/verdict.h"
#include <sys/resource.h>

static struct stat some_file(void)
{
    struct stat st;

    memset(&st, 0, sizeof st);
    st.st_dev = 7;
    st.st_ino = 11;
    st.st_size = 13;
    return st;
}

/* Evicts the verdicts in memory, so that only files count. */
static void forget_all(void)
{
    struct stat st = some_file();

    for (int i = 0; i < 100; i++) {
        verdict_key key;
        char path[32];

        (void)snprintf(path, sizeof path, "/other/%d", i);
        verdict_key_init(&key, NULL, path, &st, "", "host");
        verdict_keep(&key, &(struct verdict){ .kind = VERDICT_OK });
    }
}

static void saved_and_found(void **state)
{
    static const struct verdict rows[] = { { VERDICT_OK, "" },
                                           { VERDICT_REFUSED, "not on a Friday" },
                                           { VERDICT_CRASHED, "it crashed\nin two lines" },
                                           { VERDICT_HUNG, "it hung" } };
    struct stat st = some_file(), other;
    verdict_key key;
    struct verdict verdict;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        for (int memory = 0; memory < 2; memory++) {
            verdict_key_init(&key, memory ? NULL : folder.verdicts, "/a/b\nc.so", &st, "abcd", "host 1");
            verdict_keep(&key, &rows[row]);
            if (!memory)
                forget_all();
            verdict_find(&key, &verdict);
            assert_int_equal(verdict.kind, rows[row].kind);
            assert_null(strchr(verdict.text, '\n'));
            assert_int_equal(strlen(verdict.text), strlen(rows[row].text));
        }
    }
    forget_all();
    for (int change = 0; change < 7; change++) { /* a difference means another file or another host */
        other = st;
        other.st_dev += change == 0;
        other.st_ino += change == 1;
        other.st_size += change == 2;
        other.st_mtim.tv_nsec += change == 3;
        other.st_ctim.tv_nsec += change == 4;
        verdict_key_init(&key, folder.verdicts, "/a/b\nc.so", &other, change == 5 ? "abce" : "abcd",
                         change == 6 ? "host 2" : "host 1");
        verdict_find(&key, &verdict);
        assert_int_equal(verdict.kind, VERDICT_NONE);
    }
    verdict_key_init(&key, folder.verdicts, "/a/b\nc.so", &st, "abcd", "host 1");
    verdict_find(&key, &verdict);
    assert_int_equal(verdict.kind, VERDICT_HUNG);
    assert_true(verdict_forget(folder.verdicts, "/a/b\nc.so"));
    assert_false(verdict_forget(folder.verdicts, "/a/b\nc.so"));
    verdict_find(&key, &verdict);
    assert_int_equal(verdict.kind, VERDICT_NONE);
    folder_remove(&folder);
}

static void corrupt_files_are_ignored(void **state)
{
    struct stat st = some_file();
    unsigned char *data;
    verdict_key key;
    size_t bytes;
    struct verdict verdict;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    verdict_key_init(&key, folder.verdicts, "/a/b.so", &st, "abcd", "host 1");
    verdict_keep(&key, &(struct verdict){ VERDICT_CRASHED, "it crashed" });
    forget_all();
    data = file_bytes(key.file, &bytes);
    for (size_t at = 0; at < bytes; at++) {
        for (int bit = 0; bit < 8; bit++) {
            data[at] ^= (unsigned char)(1 << bit);
            file_write(key.file, data, bytes);
            assert_int_equal(chmod(key.file, 0600), 0);
            verdict_find(&key, &verdict);
            assert_int_equal(verdict.kind, VERDICT_NONE);
            data[at] ^= (unsigned char)(1 << bit);
        }
        file_write(key.file, data, at);
        assert_int_equal(chmod(key.file, 0600), 0);
        verdict_find(&key, &verdict);
        assert_int_equal(verdict.kind, VERDICT_NONE);
    }
    file_write(key.file, data, bytes);
    assert_int_equal(chmod(key.file, 0666), 0); /* world-writable, so not trusted */
    verdict_find(&key, &verdict);
    assert_int_equal(verdict.kind, VERDICT_NONE);
    assert_int_equal(chmod(key.file, 0600), 0);
    verdict_find(&key, &verdict);
    assert_int_equal(verdict.kind, VERDICT_CRASHED);
    free(data);
    folder_remove(&folder);
}

/* Verdicts on deleted files are removed. */
static void orphans_are_removed(void **state)
{
    struct stat st = some_file();
    verdict_key key, kept;
    char path[64];
    struct verdict verdict;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    verdict_key_init(&kept, folder.verdicts, "/proc/self/exe", &st, "", "host");
    verdict_keep(&kept, &(struct verdict){ VERDICT_CRASHED, "it crashed" });
    verdict_key_init(&key, folder.verdicts, "/gone/first", &st, "", "host");
    verdict_keep(&key, &(struct verdict){ .kind = VERDICT_OK });
    assert_int_equal(access(key.file, F_OK), 0);
    for (int i = 0; i < 300; i++) {
        verdict_key_init(&key, folder.verdicts, (snprintf(path, sizeof path, "/gone/%d", i), path), &st, "", "host");
        verdict_keep(&key, &(struct verdict){ .kind = VERDICT_OK });
    }
    forget_all();
    verdict_find(&kept, &verdict);
    assert_int_equal(verdict.kind, VERDICT_CRASHED);
    verdict_key_init(&key, folder.verdicts, "/gone/first", &st, "", "host");
    assert_int_not_equal(access(key.file, F_OK), 0);
    folder_remove(&folder);
}

/* A corrupt verdict only causes a new probe of the plugin. */
static void a_plugin_with_a_corrupt_verdict(void **state)
{
    char command[160];
    plugin_set *set;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "open", "open");
    set = folder_search(&folder);
    expect_file(plugin_set_file(set, 0), PLUGIN_CRASHED, "inlay_plugin_open");
    plugin_set_destroy(set);
    forget_all();
    set = folder_search(&folder);
    expect_file(plugin_set_file(set, 0), PLUGIN_QUARANTINED, "inlay_plugin_open");
    plugin_set_destroy(set);
    forget_all();
    (void)snprintf(command, sizeof command, "sed -i 's/verdict crashed/verdict ok/' %s/*.verdict", folder.verdicts);
    assert_int_equal(system(command), 0);
    set = folder_search(&folder);
    expect_file(plugin_set_file(set, 0), PLUGIN_CRASHED, "inlay_plugin_open");
    plugin_set_destroy(set);
    folder_remove(&folder);
}

/* FIPS 180-4's examples, and lengths around the padding. */
static void sha256_of_known_texts(void **state)
{
    static const struct {
        const char *text, *sum;
    } rows[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    };
    char hex[65], whole[65];
    struct sha256 hash;

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        sha256_init(&hash);
        sha256_update(&hash, rows[row].text, strlen(rows[row].text));
        sha256_hex(&hash, hex);
        assert_string_equal(hex, rows[row].sum);
    }
    for (size_t n = 50; n < 140; n++) { /* in one piece and byte by byte */
        static const char block[140];

        sha256_init(&hash);
        sha256_update(&hash, block, n);
        sha256_hex(&hash, whole);
        sha256_init(&hash);
        for (size_t i = 0; i < n; i++)
            sha256_update(&hash, block, 1);
        sha256_hex(&hash, hex);
        assert_string_equal(hex, whole);
    }
}

/* A limit on the size of files costs the verdict its file, not the process its life (SIGXFSZ). */
static void size_limit_is_survived(void **state)
{
    const struct stat st = some_file();
    struct rlimit before, none;
    struct verdict verdict;
    struct folder folder;
    verdict_key key;

    (void)state;
    folder_make(&folder);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
    verdict_key_init(&key, folder.verdicts, "/limited.so", &st, "abcd", "host 1");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    verdict_keep(&key, &(struct verdict){ .kind = VERDICT_OK });
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    verdict_find(&key, &verdict);
    assert_int_equal(verdict.kind, VERDICT_OK);
    forget_all();
    verdict_find(&key, &verdict);
    assert_int_equal(verdict.kind, VERDICT_NONE);
    assert_int_not_equal(access(key.file, F_OK), 0);
    assert_int_equal(rmdir(folder.verdicts), 0); /* no temporary file is left */
    folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(size_limit_is_survived),          cmocka_unit_test(saved_and_found),
        cmocka_unit_test(corrupt_files_are_ignored),       cmocka_unit_test(orphans_are_removed),
        cmocka_unit_test(a_plugin_with_a_corrupt_verdict), cmocka_unit_test(sha256_of_known_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
