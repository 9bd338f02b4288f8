/* YAML files: accepted values, rejected files and their messages, and precedence. */
#include "config/load.h"
#include "cmocka_all.h"
#include "random.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/inlay-yaml-XXXXXX";
static char path[64];   /* of the file that write_file() writes */
enum { MIB = 1 << 20 }; /* the largest size of a file of settings */
static const config_user no_user = { NULL, NULL, NULL, false };

static int make_folder(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/a.yaml", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

static void write_bytes(const char *to, const void *data, size_t bytes)
{
    FILE *file = fopen(to, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static inlay_options *make(void)
{
    inlay_options *options = NULL;

    assert_int_equal(inlay_options_create(&options, NULL), INLAY_OK);
    return options;
}

static void has(const inlay_options *options, const char *name, const char *wanted)
{
    char text[512];

    assert_int_equal(inlay_options_get(options, name, text, sizeof text, NULL, NULL), INLAY_OK);
    assert_string_equal(text, wanted);
}

/* Every way of writing a value. */
static void values(void **state)
{
    static const struct {
        const char *yaml, *name, *value;
    } table[] = {
        { "policy: priority\n", "policy", "priority" },
        { "policy: \"priority\"\n", "policy", "priority" },
        { "{policy: priority, level: 3}\n", "level", "3" },
        { "intra_threads: 4 # comment\n", "intra_threads", "4" },
        { "free_shapes: true\n", "free_shapes", "1" },
        { "free_shapes: off\n", "free_shapes", "0" },
        { "cache_dir: \"\"\n", "cache_dir", "" },
        { "cache_dir: auto\n", "cache_dir", "auto" },
        { "cache_dir: /var/x\n", "cache_dir", "/var/x" },
        { "cache_dir: ~/x\n", "cache_dir", "/home/a/x" },
        { "plugin_dirs: /a:/b\n", "plugin_dirs", "/a:/b" },
        { "plugin_dirs: [/a, ~/b]\n", "plugin_dirs", "/a:/home/a/b" },
        { "plugin_dirs: []\n", "plugin_dirs", "" },
        { "dim: batch=4\n", "dim", "batch=4" },
        { "dim: [batch=4, \"a b=2\"]\n", "dim", "batch=4,a b=2" },
        { "dim: {batch: 4, seq: 128}\n", "dim", "batch=4,seq=128" },
        { "dim:\n  batch: 4\n  seq:\n    128\n", "dim", "batch=4,seq=128" },
        { "dim: {}\n", "dim", "" },
        { "pin: {\"/a/*\": x, op:Conv: y}\n", "pin", "/a/*=x,op:Conv=y" },
        { "forbid: [op:Conv=x, y]\n", "forbid", "op:Conv=x,y" },
        { "forbid: x\n", "forbid", "x" },
        { "memory_limit: {a: 2G, b: 1024}\n", "memory_limit", "a=2G,b=1024" },
        { "providers: openblas?,reference\n", "providers", "openblas?,reference" },
        { "providers: [openblas?, reference]\n", "providers", "openblas?,reference" },
        { "providers:\n- name: openblas\n  optional: yes\n- reference\n", "providers", "openblas?,reference" },
        { "providers: [{name: a, optional: false}, {name: b?, optional: true}]\n", "providers", "a,b?" },
        { "providers: [{name: reference, options: {preview: true, x: 1.5}}]\n", "reference.preview", "true" },
        { "providers: [{name: reference, options: {preview: true, x: 1.5}}]\n", "reference.x", "1.5" },
        { "providers: [{name: b?, options: {}}]\n", "providers", "b?" },
        { "providers: [{name: b?, options: {k: v}}]\n", "b.k", "v" },
        { "providers: []\n", "providers", "" },
        { "reference.preview: true\n", "reference.preview", "true" },
        { "reference.text: \"a\\u00e9\\n\\x01\\U0001f600\\\"\\\\\"\n", "reference.text",
          "a\303\251\n\001\360\237\230\200\"\\" },
        { "providers: [{name: r, options: {\"k\\u2028\": \"\\u0085\\u2029x\"}}]\n", "r.k\342\200\250",
          "\302\205\342\200\251x" },
        { "", "policy", "cost" },
        { "# nothing\n---\n", "policy", "cost" },
        { "\357\273\277policy: priority\n", "policy", "priority" },
        { "? policy\n: priority\n", "policy", "priority" },
    };
    const config_user user = { "/home/a", NULL, NULL, false };

    (void)state;
    for (size_t r = 0; r < sizeof table / sizeof table[0]; r++) {
        inlay_options *options = make();
        inlay_diag diag = INLAY_DIAG_INIT;

        write_bytes(path, table[r].yaml, strlen(table[r].yaml));
        if (config_load_file(options, path, INLAY_SOURCE_FILE, &user, &diag) != INLAY_OK)
            fail_msg("%s: %s", table[r].yaml, diag.text);
        has(options, table[r].name, table[r].value);
        inlay_options_destroy(options);
    }
}

/* Relative paths are relative to the file. */
static void paths(void **state)
{
    inlay_options *options = make();
    char wanted[256];
    static const char yaml[] = "plugin_dirs: [mine, /a]\nexternal_dir: w\n";

    (void)state;
    write_bytes(path, yaml, sizeof yaml - 1);
    assert_int_equal(config_load_file(options, path, INLAY_SOURCE_FILE, &no_user, NULL), INLAY_OK);
    (void)snprintf(wanted, sizeof wanted, "%s/mine:/a", folder);
    has(options, "plugin_dirs", wanted);
    (void)snprintf(wanted, sizeof wanted, "%s/w", folder);
    has(options, "external_dir", wanted);
    inlay_options_destroy(options);
}

static char lines[4096]; /* the log, without the folder */

static void collect(void *user, uint32_t level, const char *text)
{
    size_t at = strlen(lines), skip = strlen(path);

    (void)user;
    assert_int_equal(level, 0);
    assert_memory_equal(text, path, skip);
    assert_null(strchr(text, '\n'));
    (void)snprintf(lines + at, sizeof lines - at, "%s%s", at > 0 ? "\n" : "", text + skip + 1);
}

static void invalid_values(void **state)
{
    static const struct {
        const char *yaml, *lines;
    } table[] = {
        { "polcy: cost\n", "1: unknown key 'polcy'; did you mean 'policy'?" },
        { "\n\nintra-thread: 2\n", "3: unknown key 'intra-thread'; did you mean 'intra_threads'?" },
        { "completely: other\n", "1: unknown key 'completely'; `inlay config` lists all keys" },
        { "completely: {other: [1, 2]}\n", "1: unknown key 'completely'; `inlay config` lists all keys" },
        { "policy: dear\n", "1: option policy: 'dear' is not one of cost, priority" },
        { "intra_threads: many\n", "1: option intra_threads: 'many' is not an integer from 0 to 4096" },
        { "intra_threads: 0x10\n", "1: option intra_threads: '0x10' is not an integer from 0 to 4096" },
        { "intra_threads: [1]\n", "1: 'intra_threads' must be a single value, not a list" },
        { "policy:\n  a: 1\n", "2: 'policy' must be a single value, not a mapping" },
        { "policy:\n", "1: 'policy' has no value; omit it for the default, or write \"\" for an empty text" },
        { "policy: ~\n", "1: 'policy' has no value; omit it for the default, or write \"\" for an empty text" },
        { "dim: [a=1, [b=2]]\n", "1: an item of 'dim' must be a single value, not a list" },
        { "dim: [a=1,\n  b]\n", "2: option dim: 'b' is not NAME=N" },
        { "dim:\n  a: 1\n  b: x\n", "3: option dim: 'x' is not an integer from 0 to 9223372036854775807" },
        { "dim: {a: {b: 1}}\n", "1: an item of 'dim' must be a single value, not a mapping" },
        { "dim: [\"\"]\n", "1: 'dim': an item is empty" },
        { "pin: [a]\n", "1: option pin: 'a' is not PATTERN=PROVIDER" },
        { "plugin_dirs: {a: /b}\n", "1: 'plugin_dirs' must be a list, not a mapping" },
        { "plugin_dirs: [\"/a:/b\"]\n", "1: 'plugin_dirs': '/a:/b' contains ':', which is not allowed in an item" },
        { "providers: {name: a}\n", "1: 'providers' must be a list, not a mapping" },
        { "providers: [[a]]\n", "1: an item of 'providers' must be a name or a mapping, not a list" },
        { "providers: [\"a,b\"]\n", "1: 'providers': 'a,b' contains ',', which is not allowed in an item" },
        { "providers: [\"\"]\n", "1: an empty name" },
        { "providers:\n  - name: a\n    optinal: true\n", "3: unknown key 'optinal'; did you mean 'optional'?" },
        { "providers:\n  - name: a\n    wheels: 4\n",
          "3: unknown key 'wheels' of a provider; its keys are name, optional and options" },
        { "providers:\n  - optional: true\n", "2: a provider without a name; write {name: NAME, ...}" },
        { "providers:\n  - b\n  - name: a\n    optional: maybe\n", "4: 'optional': 'maybe' is neither true nor false" },
        { "providers:\n  - name: a\n    options: x\n", "3: 'options' must be a mapping, not a single value" },
        { "providers:\n  - name: a\n    options:\n      k: [1]\n", "4: 'k' must be a single value, not a list" },
        { "policy: cost\nlevel: 1\npolicy: priority\n", "3: duplicate key 'policy', first in line 1" },
        { "dim: {a: 1, a: 2}\n", "1: duplicate key 'a', first in line 1" },
        { "polcy: cost\nintra_threads: x\nlevel: 100\n",
          "1: unknown key 'polcy'; did you mean 'policy'?\n"
          "2: option intra_threads: 'x' is not an integer from 0 to 4096\n"
          "3: option level: '100' is not an integer from 0 to 99" },
        { "policy: &a cost\n", "1: '&a': anchors and aliases are not supported" },
        { "level: 1\npolicy: *a\n", "2: '*a': anchors and aliases are not supported" },
        { "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "1: '&a': anchors and aliases are not supported" },
        { "policy: !!str cost\n", "1: 'tag:yaml.org,2002:str': tags are not supported" },
        { "policy: cost\n---\npolicy: cost\n", "2: a second document ('---'); only one is allowed" },
        { "[a, b]: c\n", "1: a key must be a single word, not a list or mapping" },
        { "- policy\n", "1: not a file of settings: it must have lines NAME: VALUE" },
        { "policy cost\n", "1: not a file of settings: it must have lines NAME: VALUE" },
        { "dim:\n\t- a=1\n", "2: indented with a tab; YAML requires spaces" },
        { "dim: [a=1\npolicy: cost\n", "2: not YAML: while parsing a flow sequence, did not find expected ',' or ']'" },
        { "policy: \"a\n", "2: not YAML: while scanning a quoted scalar, found unexpected end of stream" },
        { "policy: \"a\\0b\"\n", "1: a text contains a zero byte" },
        { "a: [[[[[[[[[[1]]]]]]]]]]\n", "1: nested more than 8 levels deep" },
        { "policy: \377\n", " not a YAML file: invalid leading UTF-8 octet, at byte 8" },
        { "\1\n", " not a YAML file: control characters are not allowed, at byte 0" },
    };

    (void)state;
    for (size_t r = 0; r < sizeof table / sizeof table[0]; r++) {
        inlay_options *options = make();
        inlay_diag diag = INLAY_DIAG_INIT;

        inlay_options_set_log(options, collect, NULL);
        lines[0] = '\0';
        write_bytes(path, table[r].yaml, strlen(table[r].yaml));
        assert_int_not_equal(config_load_file(options, path, INLAY_SOURCE_FILE, &no_user, &diag), INLAY_OK);
        assert_string_equal(lines, table[r].lines);
        assert_memory_equal(diag.text + strlen(path) + 1, lines, strcspn(lines, "\n")); /* the first error is also in
                                                                                         * diag */
        has(options, "policy", "cost");                                                 /* no setting is applied */
        has(options, "level", "99");
        inlay_options_destroy(options);
    }
}

static void refused(void **state)
{
    static const char good[] = "policy: priority\n";
    inlay_options *options = make();
    inlay_diag diag = INLAY_DIAG_INIT;
    char *big = calloc(1, 1 << 21), pipe_path[80], wanted[128];

    (void)state;
    assert_int_equal(config_load_file(options, "/no/such/file", INLAY_SOURCE_FILE, &no_user, &diag), INLAY_NOT_FOUND);
    assert_string_equal(diag.text, "/no/such/file: no such file");
    assert_int_equal(config_load_file(options, folder, INLAY_SOURCE_FILE, &no_user, &diag), INLAY_IO_ERROR);
    (void)snprintf(pipe_path, sizeof pipe_path, "%s/pipe", folder);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(config_load_file(options, pipe_path, INLAY_SOURCE_FILE, &no_user, &diag), INLAY_IO_ERROR);
    assert_int_equal(unlink(pipe_path), 0);
    write_bytes(path, good, sizeof good - 1);
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(config_load_file(options, path, INLAY_SOURCE_FILE, &no_user, &diag), INLAY_IO_ERROR);
    (void)snprintf(wanted, sizeof wanted, "%s: not read because all users may write to it: chmod o-w it", path);
    assert_string_equal(diag.text, wanted);
    assert_int_equal(chmod(path, 0644), 0);
    if (geteuid() == 0 && chown(path, 12345, (gid_t)-1) == 0) { /* only root can create such a file */
        assert_int_equal(config_load_file(options, path, INLAY_SOURCE_FILE, &no_user, &diag), INLAY_IO_ERROR);
        assert_non_null(strstr(diag.text, "its owner, user 12345,"));
        assert_int_equal(chown(path, 0, 12345), 0);
        assert_int_equal(chmod(path, 0664), 0);
        assert_int_equal(config_load_file(options, path, INLAY_SOURCE_FILE, &no_user, &diag), INLAY_IO_ERROR);
        assert_non_null(strstr(diag.text, "group 12345 may write to it: chmod g-w it"));
        assert_int_equal(chown(path, 0, 0), 0); /* root's group */
        inlay_options_destroy(options);
        options = make();
        assert_int_equal(config_load_file(options, path, INLAY_SOURCE_FILE, &no_user, &diag), INLAY_OK);
        has(options, "policy", "priority");
        inlay_options_destroy(options);
        options = make();
        assert_int_equal(chmod(path, 0644), 0);
    }
    assert_non_null(big);
    (void)memset(big, ' ', 1 << 21);
    write_bytes(path, big, (1 << 20) + 1);
    assert_int_equal(config_load_file(options, path, INLAY_SOURCE_FILE, &no_user, &diag), INLAY_LIMIT_EXCEEDED);
    has(options, "policy", "cost");
    free(big);
    inlay_options_destroy(options);
}

/* Fills a file of 1 MiB with head and copies of part, and expects this status and the options to be unchanged. */
static void load_large(char *text, const char *head, const char *part, inlay_status wanted)
{
    inlay_options *options = make();
    const size_t length = strlen(part);
    size_t bytes = strlen(head);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    memcpy(text, head, bytes);
    for (; bytes + length < MIB; bytes += length)
        memcpy(text + bytes, part, length);
    write_bytes(path, text, bytes);
    status = config_load_file(options, path, INLAY_SOURCE_FILE, &no_user, &diag);
    if (status != wanted)
        fail_msg("'%s%s...': status %d, expected %d: %s", head, part, (int)status, (int)wanted, diag.text);
    if (status != INLAY_OK && strncmp(diag.text, path, strlen(path)) != 0)
        fail_msg("'%s%s...': the message does not name the file: %s", head, part, diag.text);
    has(options, "policy", "cost");
    inlay_options_destroy(options);
}

/* The most expensive structures that a file may contain: they are rejected, except comments and line breaks. If reading
 * one took long or much memory, the test would exceed its time limit. */
static void large(void **state)
{
    static const struct {
        const char *part;
        inlay_status alone, in_list;
    } rows[] = {
        { "[", INLAY_LIMIT_EXCEEDED, INLAY_LIMIT_EXCEEDED },
        { "{", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { "- ", INLAY_LIMIT_EXCEEDED, INLAY_INVALID_ARGUMENT },
        { "a: ", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { "a: b\n", INLAY_LIMIT_EXCEEDED, INLAY_INVALID_ARGUMENT },
        { "? ", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { "\"", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { "&a ", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { "!a ", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { "%", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { "- - a\n", INLAY_LIMIT_EXCEEDED, INLAY_INVALID_ARGUMENT },
        { "{a,", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { "[a,", INLAY_LIMIT_EXCEEDED, INLAY_LIMIT_EXCEEDED },
        { "\t", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { "a\n", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { "#", INLAY_OK, INLAY_INVALID_ARGUMENT },
        { "dim: [a=1,", INLAY_LIMIT_EXCEEDED, INLAY_LIMIT_EXCEEDED },
        { "\r", INLAY_OK, INLAY_INVALID_ARGUMENT },
        { "\\", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { "|\n ", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { ">", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { "'", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { ": ", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { "\303\251", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { "\302\205", INLAY_OK, INLAY_INVALID_ARGUMENT },
        { "  - x\n", INLAY_LIMIT_EXCEEDED, INLAY_INVALID_ARGUMENT },
        { "---\n", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { "%TAG ! a\n", INLAY_INVALID_ARGUMENT, INLAY_INVALID_ARGUMENT },
        { "a: {b: [c, ", INLAY_LIMIT_EXCEEDED, INLAY_LIMIT_EXCEEDED },
    };
    char *text = malloc(MIB);

    (void)state;
    assert_non_null(text);
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        load_large(text, "", rows[row].part, rows[row].alone);
        load_large(text, "dim: [", rows[row].part, rows[row].in_list);
    }
    free(text);
}

static void count(void *user, uint32_t level, const char *text)
{
    (void)level;
    assert_null(strchr(text, '\n'));
    ++*(uint32_t *)user;
}

/* The sample with all keys, in which pieces are duplicated, deleted, moved and replaced: it is accepted, or rejected
 * with a message and without effect. */
static void mutants(void **state)
{
    static const char *const pieces[] = { "[",      "]",       "{",       "}",           ": ",      "- ",
                                          "\n",     "\"",      "'",       "#",           "&a ",     "*a",
                                          "!!int ", "~",       "\t",      "? ",          ", ",      "|\n",
                                          ">\n",    "---\n",   "...\n",   "%YAML 1.1\n", "\\u0000", "\377",
                                          "\0",     "options", "name: x", "  ",          "\303\251" };
    char sample[16384], *text = malloc(1 << 16);
    FILE *file = fopen(INLAY_SOURCE_DIR "/samples/inlay.yaml", "rb");
    size_t bytes, taken = 0;
    uint64_t seed = 1;

    (void)state;
    assert_non_null(file);
    assert_non_null(text);
    bytes = fread(sample, 1, sizeof sample, file);
    assert_true(bytes < sizeof sample);
    (void)fclose(file);
    sample[bytes] = '\0';
    for (size_t i = 0; i < bytes; i++) {
        size_t indent = sample[i] == '#' && (i == 0 || sample[i - 1] == '\n') ? strspn(&sample[i + 1], " ") : 1;

        if (indent % 2 == 0) { /* "#key" becomes a key; "# words" and indented lines below it stay comments */
            memmove(&sample[i], &sample[i + 1], bytes - i);
            bytes--;
        }
    }
    for (int round = 0; round < 3000; round++) {
        inlay_options *options = make();
        inlay_diag diag = INLAY_DIAG_INIT;
        uint32_t mistakes = 0;
        size_t text_bytes = bytes;
        inlay_status status;

        memcpy(text, sample, bytes);
        for (uint32_t change = random_below(&seed, 4); change > 0; change--) {
            size_t at = random_below(&seed, text_bytes), length = random_below(&seed, 40),
                   from = random_below(&seed, text_bytes);
            const char *piece = pieces[random_below(&seed, sizeof pieces / sizeof pieces[0])];

            length = at + length > text_bytes || from + length > text_bytes ? 0 : length;
            if (random_below(&seed, 3) == 0) { /* delete */
                memmove(text + at, text + at + length, text_bytes - at - length);
                text_bytes -= length;
            } else if (random_below(&seed, 2) == 0) { /* move a piece */
                memmove(text + at, text + from, length);
            } else {
                length = piece[0] == '\0' ? 1 : strlen(piece);
                memmove(text + at + length, text + at, text_bytes - at);
                memcpy(text + at, piece, length);
                text_bytes += length;
            }
        }
        inlay_options_set_log(options, count, &mistakes);
        status = config_load_text(options, text, text_bytes, "a.yaml", INLAY_SOURCE_FILE, &no_user, &diag);
        taken += status == INLAY_OK;
        assert_int_equal(status == INLAY_OK, mistakes == 0);
        assert_int_equal(status == INLAY_OK, diag.text[0] == '\0');
        for (uint32_t i = 0; status != INLAY_OK; i++) {
            inlay_setting setting = { .struct_size = sizeof setting };

            if (inlay_options_setting(options, i, &setting) != INLAY_OK)
                break;
            assert_int_equal(setting.source, INLAY_SOURCE_DEFAULT);
        }
        inlay_options_destroy(options);
    }
    assert_in_range(taken, 500, 2500); /* otherwise the mutations would be too weak or too strong */
    free(text);
}

static const char *variable_value;
static const char *variable(const char *name)
{
    return strcmp(name, "INLAY_INTRA_THREADS") == 0 ? variable_value : NULL;
}

/* Tests each subset of the sources: each source overrides all sources before it. */
static void layers(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    char system_file[80], home[80], dir[80], user_file[96];

    (void)state;
    (void)snprintf(system_file, sizeof system_file, "%s/system.yaml", folder);
    (void)snprintf(home, sizeof home, "%s/config", folder);
    (void)snprintf(dir, sizeof dir, "%s/config/inlay", folder);
    (void)snprintf(user_file, sizeof user_file, "%s/inlay.yaml", dir);
    assert_int_equal(mkdir(home, 0700), 0);
    assert_int_equal(mkdir(dir, 0700), 0);
    for (uint32_t set = 0; set < 64; set++) {
        config_user user = { NULL, NULL, home, (set & 32) != 0 };
        uint32_t counts = user.privileged ? set & ~(2u | 8u) : set, wanted = 0;
        inlay_options *options = make();
        char text[32], origin[256];
        inlay_setting setting = { .struct_size = sizeof setting };

        for (uint32_t layer = 0; layer < 5; layer++)
            if ((counts >> layer & 1) != 0)
                wanted = layer + 1;
        if ((set & 1) != 0)
            write_bytes(system_file, "\nintra_threads: 1", 17);
        if ((set & 2) != 0)
            write_bytes(user_file, "intra_threads: 2", 16);
        write_bytes(path, "# a\n# b\nintra_threads: 3", 24);
        variable_value = (set & 8) != 0 ? "4" : NULL;
        /* In the opposite order, which must not matter. */
        if ((set & 16) != 0)
            assert_int_equal(inlay_options_set(options, "intra_threads", "5", &diag), INLAY_OK);
        assert_int_equal(config_load_environment(options, variable, &user, &diag), INLAY_OK);
        if ((set & 4) != 0)
            assert_int_equal(config_load_file(options, path, INLAY_SOURCE_FILE, &user, &diag), INLAY_OK);
        assert_int_equal(config_load_standard(options, system_file, &user, &diag), INLAY_OK);
        (void)snprintf(text, sizeof text, "%u", wanted);
        has(options, "intra_threads", text);
        for (uint32_t i = 0; inlay_options_setting(options, i, &setting) == INLAY_OK; i++)
            if (strcmp(setting.name, "intra_threads") == 0)
                break;
        assert_int_equal(setting.source, wanted);
        (void)snprintf(origin, sizeof origin, "%s:%u",
                       wanted == 1   ? system_file
                       : wanted == 2 ? user_file
                                     : path,
                       wanted == 1   ? 2u
                       : wanted == 2 ? 1u
                                     : 3u);
        assert_string_equal(setting.origin, wanted == 0   ? "default"
                                            : wanted == 4 ? "INLAY_INTRA_THREADS"
                                            : wanted == 5 ? "set by the program"
                                                          : origin);
        inlay_options_destroy(options);
        (void)unlink(system_file);
        (void)unlink(user_file);
    }
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(rmdir(home), 0);
}

static const char *listed(const char *name)
{
    if (strcmp(name, "INLAY_DIM") == 0)
        return "a=1,b=2";
    if (strcmp(name, "INLAY_PROVIDERS") == 0)
        return "x?,reference";
    return strcmp(name, "INLAY_OPTION") == 0 ? variable_value : NULL;
}

static void count_slip(void *user, uint32_t level, const char *text)
{
    assert_int_equal(level, 1); /* INLAY_LOG_WARNING */
    assert_string_equal(text, "the environment variable INLAY_PRECISON has no effect; did you mean INLAY_PRECISION?");
    ++*(uint32_t *)user;
}

/* Names of options, names that resemble none, and other prefixes are no slips. */
static void slips(void **state)
{
    static char *const variables[] = {
        "INLAY_PRECISION=fast", "INLAY_PRECISON=strict", "INLAY_LIBRARY=libinlay.so", "INLAY_", "INLAY_MAX_QUEUE=3",
        "PRECISON=3",           "INLAY_OPTION=a.b=c",    "INLAY_SERVE_OWNER",         NULL
    };
    inlay_options *options = make();
    uint32_t count = 0;

    (void)state;
    config_warn_of_slips(options, variables);
    inlay_options_set_log(options, count_slip, &count);
    config_warn_of_slips(options, variables);
    assert_int_equal(count, 1);
    inlay_options_destroy(options);
}

static void environment(void **state)
{
    static const struct {
        const char *value, *text;
    } table[] = {
        { "reference.preview=true,x.y=a=b", NULL },
        { "preview=true", "INLAY_OPTION: 'preview=true' is not PROVIDER.NAME=VALUE" },
        { "reference.preview", "INLAY_OPTION: 'reference.preview' is not PROVIDER.NAME=VALUE" },
    };

    (void)state;
    for (size_t r = 0; r < sizeof table / sizeof table[0]; r++) {
        inlay_options *options = make();
        inlay_diag diag = INLAY_DIAG_INIT;

        variable_value = table[r].value;
        if (table[r].text == NULL) {
            assert_int_equal(config_load_environment(options, listed, &no_user, &diag), INLAY_OK);
            assert_int_equal(config_load_environment(options, listed, &no_user, &diag), INLAY_OK);
            has(options, "dim", "a=1,b=2");
            has(options, "providers", "x?,reference");
            has(options, "reference.preview", "true");
            has(options, "x.y", "a=b");
        } else {
            assert_int_equal(config_load_environment(options, listed, &no_user, &diag), INLAY_INVALID_ARGUMENT);
            assert_string_equal(diag.text, table[r].text);
        }
        inlay_options_destroy(options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(values),         cmocka_unit_test(paths),
                                        cmocka_unit_test(invalid_values), cmocka_unit_test(refused),
                                        cmocka_unit_test(large),          cmocka_unit_test(mutants),
                                        cmocka_unit_test(layers),         cmocka_unit_test(environment),
                                        cmocka_unit_test(slips) };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
