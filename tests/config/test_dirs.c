/* The folders of a user, and users that may not choose folders. */
#include "config/dirs.h"
#include "cmocka_all.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void rows(void **state)
{
    static const struct {
        config_user user;
        const char *wanted; /* NULL = none */
    } table[] = {
        { { "/home/a", NULL, NULL, false }, "/home/a/.cache/inlay" },
        { { "/home/a", "/x", NULL, false }, "/x/inlay" },
        { { NULL, "/x", NULL, false }, "/x/inlay" },
        { { "/home/a", "x", NULL, false }, "/home/a/.cache/inlay" },
        { { "/home/a", "", NULL, false }, "/home/a/.cache/inlay" },
        { { "home", NULL, NULL, false }, NULL },
        { { "", NULL, NULL, false }, NULL },
        { { NULL, NULL, NULL, false }, NULL },
        { { "/home/a", "/x", NULL, true }, NULL },
        { { "/home/a/and/a/name/that/is/too/long/for/the/buffer", NULL, NULL, false }, NULL },
    };

    (void)state;
    for (size_t r = 0; r < sizeof table / sizeof table[0]; r++) {
        char text[40] = "?";
        bool found = config_user_dir(&table[r].user, table[r].user.cache_home, ".cache", text, sizeof text);

        assert_int_equal(found, table[r].wanted != NULL);
        assert_string_equal(text, found ? table[r].wanted : "");
    }
}

/* The cache folder of a session: by option, by environment, or none. */
static void cache(void **state)
{
    char dir[] = "/tmp/inlay-dirs-XXXXXX", text[4096], wanted[4096];
    inlay_options *options = NULL;
    struct stat st;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(wanted, sizeof wanted, "%s/deep/inlay", dir);
    (void)snprintf(text, sizeof text, "%s/deep", dir);
    assert_int_equal(setenv("XDG_CACHE_HOME", text, 1), 0);
    assert_int_equal(inlay_options_create(&options, NULL), INLAY_OK);
    assert_true(config_cache_dir(NULL, text, sizeof text));
    assert_string_equal(text, wanted);
    assert_int_not_equal(access(wanted, F_OK), 0); /* the query creates no folder */
    assert_true(config_cache_folder(options, "plugins", text, sizeof text));
    (void)snprintf(wanted, sizeof wanted, "%s/deep/inlay/plugins", dir);
    assert_string_equal(text, wanted);
    assert_int_equal(stat(wanted, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(chmod(wanted, 0777), 0); /* others could write files */
    assert_false(config_cache_folder(options, "plugins", text, sizeof text));
    assert_string_equal(text, "");
    if (geteuid() == 0) { /* and so could a group */
        assert_int_equal(chmod(wanted, 0770), 0);
        assert_true(config_cache_folder(options, "plugins", text, sizeof text));
        assert_int_equal(chown(wanted, 0, 12345), 0);
        assert_false(config_cache_folder(options, "plugins", text, sizeof text));
        assert_string_equal(text, "");
    }
    assert_int_equal(rmdir(wanted), 0);
    (void)snprintf(text, sizeof text, "%s/own/deep", dir);
    assert_int_equal(inlay_options_set(options, "cache_dir", text, NULL), INLAY_OK);
    assert_true(config_blob_dir(options, wanted, sizeof wanted));
    assert_string_equal(wanted, text);
    assert_true(config_cache_folder(options, "", wanted, sizeof wanted));
    assert_string_equal(wanted, text);
    assert_int_equal(rmdir(wanted), 0);
    (void)snprintf(wanted, sizeof wanted, "%s/own", dir);
    assert_int_equal(rmdir(wanted), 0);
    assert_int_equal(inlay_options_set(options, "cache_dir", "", NULL), INLAY_OK);
    assert_false(config_cache_dir(options, text, sizeof text));
    assert_int_equal(setenv("XDG_CACHE_HOME", "/proc/none", 1), 0); /* no folder can be created there */
    assert_int_equal(inlay_options_set(options, "cache_dir", "auto", NULL), INLAY_OK);
    assert_false(config_cache_folder(options, "", text, sizeof text));
    inlay_options_destroy(options);
    (void)snprintf(wanted, sizeof wanted, "%s/deep/inlay", dir);
    assert_int_equal(rmdir(wanted), 0);
    (void)snprintf(wanted, sizeof wanted, "%s/deep", dir);
    assert_int_equal(rmdir(wanted), 0);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows), cmocka_unit_test(cache) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
