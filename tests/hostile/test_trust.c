/* Trust in plugin files: owners, modes, links, replaced files, and the list of checksums. */
#include "folder.h"
#include "plugin/trust.h"
#include "plugin_dirs.h"
#include <pthread.h>
#include <dlfcn.h>
#include <fcntl.h>

void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags);
static void (*before_dlopen)(void);

void *__wrap_dlopen(const char *path, int flags)
{
    if (before_dlopen != NULL && path != NULL && strstr(path, "inlay-hostile") != NULL)
        before_dlopen();
    return __real_dlopen(path, flags);
}

static void refuse_dir(const struct folder *folder, const char *words)
{
    const char *dirs[] = { folder->plugins };
    inlay_diag diag = INLAY_DIAG_INIT;
    plugin_set *set;

    if (plugin_set_create(dirs, 1, NULL, NULL, &set, &diag) == INLAY_OK)
        fail_msg("the directory was accepted; expected '%s'", words);
    if (strstr(diag.text, words) == NULL)
        fail_msg("'%s' does not say '%s'", diag.text, words);
}

static void directories(void **state)
{
    const char *tmp[] = { "/tmp" };
    inlay_diag diag = INLAY_DIAG_INIT;
    plugin_set *set;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "good", "good");
    assert_int_equal(chmod(folder.plugins, 0777), 0);
    refuse_dir(&folder, "is writable by all users: chmod o-w it");
    assert_int_equal(chmod(folder.plugins, 01777), 0);
    refuse_dir(&folder, "use a private folder");
    assert_int_equal(chmod(folder.plugins, 0755), 0);
    assert_int_equal(chmod(folder.root, 0777), 0);
    refuse_dir(&folder, "can replace");
    assert_int_equal(chmod(folder.root, 01777),
                     0); /* in a sticky folder other users cannot rename files that they do not own */
    set = folder_search(&folder);
    assert_true(plugin_set_file(set, 0)->loaded);
    plugin_set_destroy(set);
    assert_int_not_equal(plugin_set_create(tmp, 1, NULL, NULL, &set, &diag), INLAY_OK);
    if (geteuid() == 0) {
        assert_int_equal(chown(folder.plugins, 12345, 12345), 0);
        refuse_dir(&folder, "belongs to user 12345");
        assert_int_equal(chown(folder.plugins, 0, 12345), 0);
        assert_int_equal(chmod(folder.plugins, 0775), 0);
        refuse_dir(&folder, "is writable by group 12345: chmod g-w it");
        assert_int_equal(chown(folder.plugins, 0, 0), 0); /* root's group is root */
        plugin_set_destroy(folder_search(&folder));
        /* A group that may write to the folder above can replace in place, unless that folder is sticky. */
        assert_int_equal(chmod(folder.plugins, 0755), 0);
        assert_int_equal(chown(folder.root, 0, 12345), 0);
        assert_int_equal(chmod(folder.root, 0775), 0);
        refuse_dir(&folder, "is writable by a group, who can replace");
        assert_int_equal(chmod(folder.root, 01775), 0);
        plugin_set_destroy(folder_search(&folder));
        assert_int_equal(chmod(folder.root, 0755), 0);
    }
    folder_remove(&folder);
}

static void refuse_file(const struct folder *folder, const char *words)
{
    plugin_set *set = folder_search(folder);

    assert_int_equal(plugin_set_file_count(set), 1);
    expect_file(plugin_set_file(set, 0), PLUGIN_REFUSED, words);
    plugin_set_destroy(set);
}

static void files(void **state)
{
    char path[160], link_path[160], away[160];
    plugin_set *set;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "good", "good");
    (void)snprintf(path, sizeof path, "%s/good.so", folder.plugins);
    assert_int_equal(chmod(path, 0666), 0);
    refuse_file(&folder, "chmod o-w");
    assert_int_equal(chmod(path, 0644), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        refuse_file(&folder, "belongs to user 12345, who can change it at any time: chown 0 it");
        assert_int_equal(chown(path, 0, 12345), 0);
        assert_int_equal(chmod(path, 0664), 0);
        refuse_file(&folder, "chmod g-w");
        assert_int_equal(chmod(path, 0644), 0);
    } else {
        assert_int_equal(chmod(path, 0), 0);
        refuse_file(&folder, "Permission denied");
        assert_int_equal(chmod(path, 0644), 0);
    }

    /* If a link leads out of the directory, its target is checked. */
    (void)snprintf(away, sizeof away, "%s/away", folder.root);
    assert_int_equal(mkdir(away, 0777), 0);
    assert_int_equal(chmod(away, 0777), 0);
    (void)snprintf(link_path, sizeof link_path, "%s/away/good.so", folder.root);
    assert_int_equal(rename(path, link_path), 0);
    assert_int_equal(symlink(link_path, path), 0);
    refuse_file(&folder, "is writable by all users");
    assert_int_equal(chmod(away, 0755), 0);
    set = folder_search(&folder);
    assert_true(plugin_set_file(set, 0)->loaded);
    plugin_set_destroy(set);
    folder_remove(&folder);
}

static struct folder swap_folder;

static void exchange(void)
{
    char good[160], evil[160];

    (void)snprintf(good, sizeof good, "%s/plugin.so", swap_folder.plugins);
    (void)snprintf(evil, sizeof evil, "%s/evil.so.next", swap_folder.plugins);
    assert_int_equal(rename(evil, good), 0);
}

/* A verified library is not searched for again, but another file at its address is refused, also later. */
static void verified_once(void **state)
{
    const void *address = (const void *)(uintptr_t)&verified_once;
    const int right = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), wrong = open("/bin/sh", O_RDONLY | O_CLOEXEC);
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_true(right >= 0 && wrong >= 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(trust_mapped(wrong, address, address, &diag), INLAY_INVALID_ARGUMENT);
        assert_int_equal(trust_mapped(right, address, address, &diag), INLAY_OK);
        if (i == 1)
            trust_forget();
    }
    (void)close(right);
    (void)close(wrong);
}

static void replaced_between_check_and_open(void **state)
{
    struct folder *folder = &swap_folder;
    char good[256], evil[256];
    plugin_set *set;

    (void)state;
    folder_make(folder);
    folder_add(folder, "no_note", "evil");
    folder_add(folder, "good", "plugin");
    (void)snprintf(good, sizeof good, "%s/evil.so", folder->plugins);
    (void)snprintf(evil, sizeof evil, "%s/evil.so.next", folder->plugins);
    assert_int_equal(rename(good, evil), 0);
    before_dlopen = exchange;
    set = folder_search(folder);
    before_dlopen = NULL;
    assert_int_equal(plugin_set_file_count(set), 1);
    expect_file(plugin_set_file(set, 0), PLUGIN_REFUSED, "the loaded file is not the one that was checked");
    assert_int_equal(plugin_set_provider_count(set), 0);
    plugin_set_destroy(set);
    folder_remove(folder);
}

static uint32_t stop_swapping;

/* plugin.so is a link that alternates between a good file and a world-writable one. */
static void *swap_links(void *arg)
{
    const struct folder *folder = arg;
    char target[160], next[160], name[160];

    (void)snprintf(name, sizeof name, "%s/plugin.so", folder->plugins);
    (void)snprintf(next, sizeof next, "%s/next", folder->plugins);
    for (uint32_t i = 0; __atomic_load_n(&stop_swapping, __ATOMIC_RELAXED) == 0; i++) {
        (void)snprintf(target, sizeof target, "%s/%s", folder->root, i % 2 == 0 ? "good.so" : "evil.so");
        if (symlink(target, next) != 0 || rename(next, name) != 0)
            break;
        (void)usleep(50);
    }
    return NULL;
}

static void changing_links(void **state)
{
    char from[160], to[160];
    pthread_t thread;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    for (int i = 0; i < 2; i++) {
        folder_add(&folder, i == 0 ? "good" : "no_note", "x");
        (void)snprintf(from, sizeof from, "%s/x.so", folder.plugins);
        (void)snprintf(to, sizeof to, "%s/%s.so", folder.root, i == 0 ? "good" : "evil");
        assert_int_equal(rename(from, to), 0);
    }
    assert_int_equal(chmod(to, 0666), 0);
    __atomic_store_n(&stop_swapping, 0, __ATOMIC_RELAXED);
    assert_int_equal(pthread_create(&thread, NULL, swap_links, &folder), 0);
    for (int i = 0; i < 300; i++) {
        plugin_set *set = folder_search(&folder);

        assert_true(plugin_set_file_count(set) <= 1);
        assert_null(plugin_set_find(set, "no_note"));
        plugin_set_destroy(set);
    }
    __atomic_store_n(&stop_swapping, 1, __ATOMIC_RELAXED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    folder_remove(&folder);
}

static void only_listed_files(void **state)
{
    char list[160], command[512], sum[128] = "";
    plugin_search search = { .allow = list };
    plugin_set *set;
    FILE *pipe;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "good", "good");
    (void)snprintf(list, sizeof list, "%s/allow", folder.root);
    set = folder_search_with(&folder, search);
    expect_file(plugin_set_file(set, 0), PLUGIN_REFUSED, "option plugin_allow");
    plugin_set_destroy(set);
    file_write(list, "# none yet\n", 11);
    set = folder_search_with(&folder, search);
    expect_file(plugin_set_file(set, 0), PLUGIN_REFUSED, "add the line: ");
    /* The checksum in the message equals that of sha256sum. */
    (void)snprintf(command, sizeof command, "sha256sum %s/good.so", folder.plugins);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(sum, sizeof sum, pipe));
    assert_int_equal(pclose(pipe), 0);
    sum[64] = '\0';
    assert_non_null(strstr(plugin_set_file(set, 0)->reason, sum));
    plugin_set_destroy(set);
    (void)snprintf(command, sizeof command, "sha256sum %s/good.so >>%s", folder.plugins, list);
    assert_int_equal(system(command), 0);
    set = folder_search_with(&folder, search);
    assert_true(plugin_set_file(set, 0)->loaded);
    plugin_set_destroy(set);
    /* Every digit counts, and no digit may follow the last one. */
    for (size_t i = 0; i <= 64; i++) {
        char wrong[80];

        (void)snprintf(wrong, sizeof wrong, "%s  good.so\n", sum);
        wrong[i] = wrong[i] == '0' ? '1' : '0';
        file_write(list, wrong, strlen(wrong));
        set = folder_search_with(&folder, search);
        expect_file(plugin_set_file(set, 0), PLUGIN_REFUSED, "add the line: ");
        plugin_set_destroy(set);
    }
    (void)snprintf(command, sizeof command, "\\%s *good.so\n",
                   sum); /* the format of sha256sum for special file names */
    file_write(list, command, strlen(command));
    set = folder_search_with(&folder, search);
    assert_true(plugin_set_file(set, 0)->loaded);
    plugin_set_destroy(set);
    /* The list also applies to a file that is loaded already. */
    set = folder_search(&folder);
    file_write(list, "", 0);
    plugin_set_destroy(folder_search_with(&folder, search));
    plugin_set_destroy(set);
    assert_int_equal(chmod(list, 0666), 0);
    set = folder_search_with(&folder, search);
    expect_file(plugin_set_file(set, 0), PLUGIN_REFUSED, "chmod o-w");
    plugin_set_destroy(set);
    folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directories),
        cmocka_unit_test(files),
        cmocka_unit_test(replaced_between_check_and_open),
        cmocka_unit_test(verified_once),
        cmocka_unit_test(changing_links),
        cmocka_unit_test(only_listed_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
