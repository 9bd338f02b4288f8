/* Two plugin files with a plugin, provider or operator name in common: one is used, the other is reported. */
#include "../hostile/folder.h"
#include "inlay/host.h"
#include "base/version.h"
#include "plugin_dirs.h"
#include "process_counts.h"
#include <sys/resource.h>

static void version_order(void **state)
{
    static const char *const rising[] = {
        "",    "0.9",  "1.0~beta2", "1.0~beta10", "1.0-rc1", "1.0", "1.0-1", "1.0.1",    "1.2",
        "1.9", "1.10", "1.10a",     "1.10.0b",    "v2.0",    "10",  "10.0x", "20261123", "18446744073709551617"
    };

    (void)state;
    for (size_t i = 0; i < sizeof rising / sizeof rising[0]; i++) {
        for (size_t k = 0; k < sizeof rising / sizeof rising[0]; k++) {
            const int order = version_compare(rising[i], rising[k]);

            if ((order > 0) != (i > k) || (order < 0) != (i < k))
                fail_msg("'%s' and '%s' compare as %d", rising[i], rising[k], order);
        }
    }
    assert_int_equal(version_compare("v1.2", "1.02"), 0);
}

/* Expects that file `used` is loaded, and that file `other` is shadowed by it for a reason with these words. */
static void expect_shadowed(const plugin_set *set, const char *used, const char *other, const char *words)
{
    const plugin_file *first = plugin_file_named(set, used), *second = plugin_file_named(set, other);

    expect_file(first, PLUGIN_LOADED, NULL);
    assert_null(first->shadowed_by);
    expect_file(second, PLUGIN_SHADOWED, words);
    assert_string_equal(second->shadowed_by, first->path);
    assert_non_null(strstr(second->reason, first->path));
    assert_int_equal(plugin_set_file_count(set), 2);
    assert_int_equal(plugin_set_provider_count(set), 1);
}

/* Files of one folder, whatever their names. */
static void higher_version_of_a_folder(void **state)
{
    static const struct {
        const char *used, *other, *words;
    } rows[] = {
        { "v1_10", "v1_9", "provider 'edition' is already provided by" },
        { "v1_10", "v1_9", "a higher version in the same folder (1.10; this file: 1.9)" },
        { "v1_9", "unversioned",
          "which comes first in the same folder (1.9; this file: no version in its note: define INLAY_NOTE_VERSION)" },
        { "v1_10", "renamed", "plugin 'edition' is already provided by" },
    };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        for (int swapped = 0; swapped < 2; swapped++) {
            struct folder folder;
            plugin_set *set;

            folder_make(&folder);
            folder_add(&folder, rows[row].used, swapped ? "b" : "a");
            folder_add(&folder, rows[row].other, swapped ? "a" : "b");
            set = folder_search(&folder);
            expect_shadowed(set, swapped ? "b.so" : "a.so", swapped ? "a.so" : "b.so", rows[row].words);
            plugin_set_destroy(set);
            folder_remove(&folder);
        }
    }
}

static void first_name_of_equal_versions(void **state)
{
    struct folder folder;
    plugin_set *set;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "v1_9", "b");
    folder_add(&folder, "v1_9", "a");
    set = folder_search(&folder);
    expect_shadowed(set, "a.so", "b.so", "the first by name in the same folder (1.9; this file: 1.9)");
    assert_string_equal(plugin_file_named(set, "b.so")->version, "1.9");
    plugin_set_destroy(set);
    folder_remove(&folder);
}

/* A higher version that cannot be loaded does not hide a lower one. */
static void refused_file_shadows_nothing(void **state)
{
    struct folder folder;
    plugin_set *set;
    char path[160];

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "v1_10", "a");
    folder_add(&folder, "v1_9", "b");
    (void)snprintf(path, sizeof path, "%s/a.so", folder.plugins);
    assert_int_equal(chmod(path, 0666), 0);
    set = folder_search(&folder);
    expect_file(plugin_file_named(set, "a.so"), PLUGIN_REFUSED, "chmod o-w");
    expect_file(plugin_file_named(set, "b.so"), PLUGIN_LOADED, NULL);
    assert_non_null(plugin_set_find(set, "edition"));
    plugin_set_destroy(set);
    folder_remove(&folder);
}

static plugin_set *search_both(const char *first, const char *second, plugin_log_fn log, void *log_user)
{
    const char *dirs[] = { first, second };
    const plugin_search search = { .dirs = dirs, .dir_count = 2, .log = log, .log_user = log_user };
    inlay_diag diag = INLAY_DIAG_INIT;
    plugin_set *set = NULL;

    if (plugin_set_search(&search, &set, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return set;
}

static void count_warnings(void *user, uint32_t level, const char *text)
{
    *(int *)user += level == INLAY_LOG_WARNING && strstr(text, "not loaded") != NULL;
}

/* Of two folders the first counts, not the version, also for files that have only the plugin's name or an operator in
 * common. This is no warning, unlike a second file in one folder. */
static void first_folder_of_two(void **state)
{
    static const struct {
        const char *used, *other, *words;
    } rows[] = {
        { "v1_9", "v1_10", "provider 'edition' is already provided by" },
        { "v1_10", "v1_9", "which is searched first" },
        { "renamed", "v1_10", "plugin 'edition' is already provided by" },
        { "operator", "operator2", "operator com.example.editions.Edit-2 is already provided by" },
        { "v1_9", "silent", "provider 'edition' is already provided by" },
    };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        struct folder folders[2];
        plugin_set *set;
        int warnings = 0;

        for (int i = 0; i < 2; i++) {
            folder_make(&folders[i]);
            folder_add(&folders[i], i == 0 ? rows[row].used : rows[row].other, i == 0 ? "used" : "other");
        }
        set = search_both(folders[0].plugins, folders[1].plugins, count_warnings, &warnings);
        expect_shadowed(set, "used.so", "other.so", rows[row].words);
        assert_int_equal(warnings, 0);
        plugin_set_destroy(set);
        for (int i = 0; i < 2; i++)
            folder_remove(&folders[i]);
    }
}

static void other_files_are_not_affected(void **state)
{
    struct folder folder;
    plugin_set *set;
    int warnings = 0;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "v1_9", "a");
    folder_add(&folder, "operator", "b");
    folder_add(&folder, "v1_10", "c");
    set = folder_search_with(&folder, (plugin_search){ .log = count_warnings, .log_user = &warnings });
    assert_int_equal(plugin_set_provider_count(set), 2);
    assert_ptr_equal(plugin_set_find(set, "edition")->file, plugin_file_named(set, "c.so"));
    assert_ptr_equal(plugin_set_find(set, "editor")->file, plugin_file_named(set, "b.so"));
    assert_int_equal(plugin_set_operator_count(set), 1);
    assert_int_equal(warnings, 1);
    plugin_set_destroy(set);
    folder_remove(&folder);
}

/* A file that the search path names comes before all folders. */
static void named_file_comes_first(void **state)
{
    struct folder folders[2];
    plugin_set *set;
    char path[160];

    (void)state;
    for (int i = 0; i < 2; i++)
        folder_make(&folders[i]);
    folder_add(&folders[0], "v1_10", "folder");
    folder_add(&folders[1], "v1_9", "named");
    folder_add(&folders[1], "operator", "neighbour");
    (void)snprintf(path, sizeof path, "%s/named.so", folders[1].plugins);
    set = search_both(folders[0].plugins, path, NULL, NULL);
    expect_shadowed(set, "named.so", "folder.so", "which is searched first");
    plugin_set_destroy(set);
    for (int i = 0; i < 2; i++)
        folder_remove(&folders[i]);
}

/* Read calls of this process so far. */
static unsigned long long reads(void)
{
    unsigned long long count = 0;
    char line[64];
    FILE *io = fopen("/proc/self/io", "r");

    while (io != NULL && count == 0 && fgets(line, sizeof line, io) != NULL)
        (void)sscanf(line, "syscr: %llu", &count);
    if (io != NULL)
        (void)fclose(io);
    return count;
}

/* Once a process has searched a folder, it reads neither its files nor their verdicts again. */
static void files_are_read_once(void **state)
{
    unsigned long long before, own, first, second;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "v1_10", "a");
    folder_add(&folder, "operator", "b");
    before = reads();
    own = reads() - before; /* of this function itself */
    if (before == 0)
        skip(); /* the kernel does not count them */
    plugin_set_destroy(folder_search(&folder));
    first = reads();
    plugin_set_destroy(folder_search(&folder));
    second = reads();
    assert_true(first - before > 2 * own);
    assert_int_equal(second - first, own);
    folder_remove(&folder);
}

/* A file that takes the place of another is read again. */
static void replaced_file_is_read_again(void **state)
{
    static const char *const editions[] = { "v1_9", "renamed", "v1_9" }, *const versions[] = { "1.9", "1.8", "1.9" };
    struct folder folder;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "v1_10", "a");
    for (size_t i = 0; i < sizeof editions / sizeof editions[0]; i++) {
        plugin_set *set;

        folder_add(&folder, editions[i], "b");
        set = folder_search(&folder);
        expect_shadowed(set, "a.so", "b.so", versions[i]);
        assert_string_equal(plugin_file_named(set, "b.so")->version, versions[i]);
        plugin_set_destroy(set);
    }
    folder_remove(&folder);
}

static plugin_set *search_isolated(const struct folder *folder)
{
    const char *dirs[] = { folder->plugins };
    const plugin_search search = { .dirs = dirs, .dir_count = 1, .probe = PLUGIN_PROBE_NEVER, .isolate = "all" };
    inlay_diag diag = INLAY_DIAG_INIT;
    plugin_set *set;

    if (plugin_set_search(&search, &set, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return set;
}

/* Grows with each child process that has ended. */
static long faults_of_children(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
    return usage.ru_minflt;
}

/* A process describes an isolated file, and later sets use this description until another file takes its place. None
 * describes a file whose note has operators, which cannot be isolated. */
static void isolated_file_is_described_once(void **state)
{
    static const char *const editions[] = { "v1_9", "v1_10", "v1_9", "renamed" }, *const versions[] = { "1.9", "1.10",
                                                                                                        "1.9", "1.8" };
    struct folder folder;
    int descriptors = 0;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "operator", "b");
    for (size_t i = 0; i < sizeof editions / sizeof editions[0]; i++) {
        long before = faults_of_children(), described = 0;

        folder_add(&folder, editions[i], "a");
        for (int again = 0; again < 2; again++) {
            plugin_set *set = search_isolated(&folder);

            assert_string_equal(plugin_file_named(set, "a.so")->version, versions[i]);
            assert_true(plugin_file_named(set, "a.so")->isolated);
            expect_file(plugin_file_named(set, "b.so"), PLUGIN_REFUSED, "it has custom operators");
            plugin_set_destroy(set);
            described = again == 0 ? faults_of_children() : described;
        }
        assert_true(described > before);
        assert_int_equal(faults_of_children(), described);
        descriptors = i == 0 ? descriptor_count() : descriptors;
        assert_int_equal(descriptor_count(), descriptors); /* nothing is kept of the files before */
    }
    folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_order),
        cmocka_unit_test(higher_version_of_a_folder),
        cmocka_unit_test(first_name_of_equal_versions),
        cmocka_unit_test(refused_file_shadows_nothing),
        cmocka_unit_test(first_folder_of_two),
        cmocka_unit_test(other_files_are_not_affected),
        cmocka_unit_test(named_file_comes_first),
        cmocka_unit_test(files_are_read_once),
        cmocka_unit_test(replaced_file_is_read_again),
        cmocka_unit_test(isolated_file_is_described_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
