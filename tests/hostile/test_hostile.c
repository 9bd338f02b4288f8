/* Plugins that crash, hang, end the process or have wrong notes, and broken files: this process survives, and the
 * reason of each file names the cause. */
#include "folder.h"
#include "inlay/host.h"
#include "base/hash.h"
#include "plugin/note.h"
#include "plugin/probe.h"
#include <elf.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static void bad_plugins_are_classified(void **state)
{
    static const struct {
        const char *evil;
        plugin_outcome outcome;
        const char *words;
        uint32_t probe_ms; /* 0 = the default */
    } rows[] = {
        { "segv_constructor", PLUGIN_CRASHED, "crashed (SIGSEGV) in its constructors", 0 },
        { "abort_constructor", PLUGIN_CRASHED, "crashed (SIGABRT) in its constructors", 0 },
        { "exit_constructor", PLUGIN_CRASHED, "ended the process (exit code 0) in its constructors", 0 },
        { "hang_constructor", PLUGIN_HUNG, "its constructors had not returned after 400 ms", 400 },
        { "open", PLUGIN_CRASHED, "crashed (SIGSEGV) in inlay_plugin_open", 0 },
        { "atexit", PLUGIN_CRASHED, "crashed (SIGSEGV) in the end of the process", 0 },
        { "assess", PLUGIN_CRASHED, "in assess of node 'Relu', provider assess", 0 },
        { "hang_assess", PLUGIN_HUNG, "assess of node 'Relu', provider hang_assess had not returned", 800 },
        { "compile", PLUGIN_CRASHED, "in compile of node 'Relu', provider compile", 0 },
        { "execute", PLUGIN_CRASHED, "in execute, provider execute", 0 },
        { "example", PLUGIN_CRASHED, "in execute, provider example", 0 },
        { "no_symbol", PLUGIN_REFUSED, "exports no inlay_plugin_open", 0 },
        { "future", PLUGIN_REFUSED, "plugin ABI 2.0; this host loads 1.x: update inlay", 0 },
        { "old", PLUGIN_REFUSED, "plugin ABI 0.9; this host loads 1.x: rebuild the plugin", 0 },
        { "minor", PLUGIN_REFUSED, "needs a host with ABI 1.99", 0 },
        { "isa", PLUGIN_REFUSED, "instructions that this host does not know", 0 },
        { "level", PLUGIN_REFUSED, "a level that this host does not know", 0 },
        { "sanitized", PLUGIN_REFUSED, "built with MemorySanitizer", 0 },
        { "lying_abi", PLUGIN_REFUSED,
          "its note is wrong: the ABI is '1.7' in the note, but '1.1' in inlay_plugin_open", 0 },
        { "lying_name", PLUGIN_REFUSED, "the plugin is 'somebody_else' in the note, but 'lying_name'", 0 },
        { "lying_provider", PLUGIN_REFUSED, "the providers are 'lying_provider openvino' in the note, but '1 of them'",
          0 },
        { "lying_domain", PLUGIN_REFUSED, "the domains are 'com.example' in the note, but '0 of them'", 0 },
        { "musl", PLUGIN_REFUSED, "built for the C library musl, but this host uses glibc", 0 },
        { "static_tls", PLUGIN_REFUSED, "compile it and the static libraries in it with -ftls-model=global-dynamic",
          0 },
        { "no_note", PLUGIN_LOADED, NULL, 0 },
        { "good", PLUGIN_LOADED, NULL, 0 },
    };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        bool sick = rows[row].outcome == PLUGIN_CRASHED || rows[row].outcome == PLUGIN_HUNG;
        plugin_set *set;
        struct folder folder;

        folder_make(&folder);
        folder_add(&folder, rows[row].evil, rows[row].evil);
        for (int again = 0; again < 2; again++) { /* the second time from the verdict in memory */
            set = folder_search_with(&folder, (plugin_search){ .probe_ms = rows[row].probe_ms });
            assert_int_equal(plugin_set_file_count(set), 1);
            expect_file(plugin_set_file(set, 0), sick && again ? PLUGIN_QUARANTINED : rows[row].outcome,
                        rows[row].words);
            assert_true(sick == (plugin_set_file(set, 0)->fix != NULL));
            plugin_set_destroy(set);
        }
        folder_remove(&folder);
    }
}

static void collect_warnings(void *user, uint32_t level, const char *text)
{
    char *warnings = user;
    size_t used = strlen(warnings);

    if (level == INLAY_LOG_WARNING)
        (void)snprintf(warnings + used, 2048 - used, "%s\n", text);
}

/* A plugin that changes process state runs, and the log lists the changes each time. */
static void process_state_changes_are_reported(void **state)
{
    static const char *const words[] = {
        "changes process state that it must not touch",
        "rounding, flushing",
#if defined(__SANITIZE_THREAD__)
        "threads are left", /* ThreadSanitizer starts one, too */
#else
        "1 thread is left",
#endif
        "working directory was changed",
        "the locale was",
        "the umask was",
        "handler of signal 10",
        "something was printed"
    };
    struct folder folder;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "rude", "rude");
    folder_add(&folder, "good", "good");
    for (int again = 0; again < 2; again++) { /* the second time from the verdict in memory */
        static char warnings[2048];
        plugin_set *set;

        warnings[0] = '\0';
        set = folder_search_with(&folder,
                                 (plugin_search){ .probe_ms = 3000, .log = collect_warnings, .log_user = warnings });
        expect_file(plugin_set_file(set, 0), PLUGIN_LOADED, NULL);
        expect_file(plugin_set_file(set, 1), PLUGIN_LOADED, NULL);
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            if (strstr(warnings, words[i]) == NULL)
                fail_msg("no '%s' in: %s", words[i], warnings);
        assert_null(strstr(warnings, "good.so"));
        plugin_set_destroy(set);
    }
    folder_remove(&folder);
}

/* A plugin that brings another OpenMP runtime runs, and the log and the list of plugins say what is better. */
static void second_openmp_is_reported(void **state)
{
    static char warnings[2048];
    struct folder folder;
    plugin_set *set;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "openmp", "openmp");
    folder_add(&folder, "good", "good");
    set =
        folder_search_with(&folder, (plugin_search){ .probe_ms = 3000, .log = collect_warnings, .log_user = warnings });
    expect_file(plugin_set_file(set, 0), PLUGIN_LOADED, NULL);
    expect_file(plugin_set_file(set, 1), PLUGIN_LOADED, NULL);
    assert_null(plugin_set_file(set, 0)->advice);
    assert_non_null(plugin_set_file(set, 1)->advice);
    assert_non_null(strstr(plugin_set_file(set, 1)->advice, "a second OpenMP runtime (libomp.so.5)"));
    assert_non_null(strstr(warnings, "openmp.so: it brings a second OpenMP runtime"));
    assert_null(strstr(warnings, "good.so"));
    plugin_set_destroy(set);
    folder_remove(&folder);
}

/* A plugin in a probe process does not read this process's standard input, and does not wait for input. */
static void a_probe_has_no_input(void **state)
{
    static const char words[] = "for the host";
    char got[sizeof words] = "";
    int ends[2], was = dup(STDIN_FILENO);
    plugin_set *set;
    struct folder folder;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], words, sizeof words), sizeof words);
    assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    folder_make(&folder);
    folder_add(&folder, "reads", "reads");
    set = folder_search_with(&folder, (plugin_search){ .probe_ms = 0 });
    expect_file(plugin_set_file(set, 0), PLUGIN_LOADED, NULL);
    plugin_set_destroy(set);
    folder_remove(&folder);
    assert_int_equal(fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(read(STDIN_FILENO, got, sizeof got), sizeof words);
    assert_string_equal(got, words);
    if (was >= 0)
        (void)dup2(was, STDIN_FILENO), (void)close(was);
    (void)close(ends[0]), (void)close(ends[1]);
}

/* Runs the helper with signals pending that arrived before it had its own process group; reads the lines of its
 * verdict. */
static void run_interrupted(const char *helper, const char *plugin, char *text, size_t bytes)
{
    int ends[2], status = -1;
    size_t used = 0;
    ssize_t n;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sigset_t all;

        (void)sigfillset(&all);
        (void)sigprocmask(SIG_SETMASK, &all, NULL);
        (void)raise(SIGINT);
        (void)raise(SIGTSTP);
        (void)dup2(ends[1], PROBE_FD);
        (void)execl(helper, helper, plugin, (char *)NULL);
        _exit(127);
    }
    (void)close(ends[1]);
    while (used + 1 < bytes && (n = read(ends[0], text + used, bytes - 1 - used)) > 0)
        used += (size_t)n;
    text[used] = '\0';
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Ctrl-C on a terminal during a probe does not count as a crash of the plugin. */
static void interrupts_are_no_crashes(void **state)
{
    static const char script[] =
        "#!/bin/sh\nwhile read -r key value; do [ \"$key\" != SigBlk: ] || echo \"note $value\" >&3; "
        "done </proc/self/status\necho ok >&3\necho done >&3\n";
    char helper[PATH_MAX], host[128], plugin[256], text[8192];
    inlay_diag diag = INLAY_DIAG_INIT;
    struct probe probe = { .pid = 0 };
    struct verdict verdict;
    struct folder folder;

    (void)state;
    assert_int_equal(probe_find(helper, host, &diag), INLAY_OK);
    folder_make(&folder);
    folder_add(&folder, "good", "good");
    (void)snprintf(plugin, sizeof plugin, "%s/good.so", folder.plugins);
    run_interrupted(helper, plugin, text, sizeof text);
    assert_non_null(strstr(text, "\nok\n"));
    assert_non_null(strstr(text, "\ndone\n"));
    /* The helper starts with these signals blocked: a script in its place reports its signal mask. */
    (void)snprintf(helper, sizeof helper, "%s/helper", folder.root);
    file_write(helper, script, sizeof script - 1);
    assert_int_equal(chmod(helper, 0700), 0);
    assert_int_equal(probe_start(helper, plugin, NULL, 60000, false, &probe, &diag), INLAY_OK);
    probe_finish(&probe, &verdict);
    assert_int_equal(verdict.kind, VERDICT_OK);
    assert_true((strtoull(verdict.text, NULL, 16) >> (SIGINT - 1) & 1) == 1);
    folder_remove(&folder);
}

/* A helper that does not start, or lacks descriptors, says nothing about the plugin. */
static void shortages_are_no_verdicts(void **state)
{
    static const struct {
        const char *script, *text;
        verdict_kind kind;
    } rows[] = {
        { "#!/bin/sh\nexit 127\n", "inlay-probe ended with exit code 127 at its start", VERDICT_NONE },
        { "#!/bin/sh\necho 'lacks a: Too many open files' >&3\necho at end >&3\necho done >&3\n",
          "a: Too many open files", VERDICT_NONE },
        { "#!/bin/sh\necho 'refused it has no name' >&3\necho at end >&3\necho done >&3\n", "it has no name",
          VERDICT_REFUSED },
        { "#!/bin/sh\necho at its constructors >&3\nexit 127\n", "its constructors", VERDICT_CRASHED },
    };
    char helper[300];
    struct folder folder;

    (void)state;
    folder_make(&folder);
    (void)snprintf(helper, sizeof helper, "%s/helper", folder.root);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        struct probe probe = { .pid = 0 };
        struct verdict verdict;

        file_write(helper, rows[i].script, strlen(rows[i].script));
        assert_int_equal(chmod(helper, 0700), 0);
        assert_int_equal(probe_start(helper, "plugin.so", NULL, 60000, false, &probe, &diag), INLAY_OK);
        probe_finish(&probe, &verdict);
        assert_int_equal(verdict.kind, rows[i].kind);
        assert_non_null(strstr(verdict.text, rows[i].text));
    }
    folder_remove(&folder);
}

/* The helper writes its answer in lines: a line break in a file name must not begin a new line. */
static void names_with_lines(void **state)
{
    plugin_set *set;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "undefined", "two\nlines");
    set = folder_search_with(&folder, (plugin_search){ .probe_ms = 0 });
    assert_int_equal(plugin_set_file_count(set), 1);
    expect_file(plugin_set_file(set, 0), PLUGIN_REFUSED, "two?lines.so: undefined symbol: missing_function");
    plugin_set_destroy(set);
    folder_remove(&folder);
}

static void quarantine_ends_with_a_change_or_on_request(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    plugin_search search;
    const struct provider *open;
    plugin_set *set;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "compile", "compile");
    folder_add(&folder, "good", "good");
    set = folder_search(&folder);
    expect_file(plugin_set_file(set, 0), PLUGIN_CRASHED, "compile");
    assert_int_equal(provider_open(set, "compile", NULL, 0, &open, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "crashed (SIGSEGV) in compile of node 'Relu'"));
    assert_non_null(strstr(diag.text, "inlay providers --retry"));
    assert_int_equal(provider_open(set, "good", NULL, 0, &open, &diag), INLAY_OK);
    provider_close(open);
    plugin_set_destroy(set);

    set = folder_search(&folder);
    expect_file(plugin_set_file(set, 0), PLUGIN_QUARANTINED, "compile");
    search = (plugin_search){ .verdict_dir = folder.verdicts };
    assert_int_equal(plugin_retry(&search, set, "good", &diag), INLAY_NOT_FOUND);
    assert_int_equal(plugin_retry(&search, set, "compile", &diag), INLAY_OK);
    plugin_set_destroy(set);
    set = folder_search(&folder);
    expect_file(plugin_set_file(set, 0), PLUGIN_CRASHED, "compile");
    plugin_set_destroy(set);

    folder_add(&folder, "compile", "compile"); /* the same content, but another file */
    set = folder_search(&folder);
    expect_file(plugin_set_file(set, 0), PLUGIN_CRASHED, "compile");
    plugin_set_destroy(set);
    folder_add(&folder, "no_note", "compile");
    set = folder_search(&folder);
    assert_true(plugin_set_file(set, 0)->loaded);
    plugin_set_destroy(set);
    folder_remove(&folder);
}

static void without_probe_marks_still_count(void **state)
{
    plugin_set *set;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "open", "open");
    set = folder_search(&folder);
    expect_file(plugin_set_file(set, 0), PLUGIN_CRASHED, "open");
    plugin_set_destroy(set);
    set = folder_search_with(&folder, (plugin_search){ .probe = PLUGIN_PROBE_NEVER });
    expect_file(plugin_set_file(set, 0), PLUGIN_QUARANTINED, "open");
    plugin_set_destroy(set);
    folder_remove(&folder);
}

static void check_corrupt(const struct folder *folder, const void *data, size_t bytes, const char *words)
{
    plugin_set *set;
    char path[160];

    (void)snprintf(path, sizeof path, "%s/bent.so", folder->plugins);
    file_write(path, data, bytes);
    set = folder_search(folder);
    assert_int_equal(plugin_set_file_count(set), 1);
    if (plugin_set_file(set, 0)->outcome != PLUGIN_REFUSED && plugin_set_file(set, 0)->outcome != PLUGIN_NOT_ELF)
        fail_msg("%zu bytes: %s", bytes, plugin_outcome_text(plugin_set_file(set, 0)->outcome));
    expect_file(plugin_set_file(set, 0), plugin_set_file(set, 0)->outcome, words);
    plugin_set_destroy(set);
}

static void truncated_anywhere(void **state)
{
    unsigned char *data;
    size_t bytes;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    data = file_bytes(EVIL_DIR "/good.so", &bytes);
    for (size_t n = 0; n < bytes; n += 64)
        check_corrupt(&folder, data, n, n < 64 ? NULL : "truncated");
    check_corrupt(&folder, data, bytes - 1, "truncated");
    free(data);
    folder_remove(&folder);
}

static void other_machines(void **state)
{
    static const struct {
        size_t offset;
        unsigned char value[2];
        const char *words;
    } rows[] = {
        { EI_CLASS, { ELFCLASS32, 0 }, NULL },
        { EI_DATA, { ELFDATA2MSB, 0 }, NULL },
        { 16, { ET_EXEC, 0 }, "not a shared object" },
        { 16, { ET_REL, 0 }, "not a shared object" },
        { 18, { EM_386, 0 }, "built for 32-bit x86, but this machine is x86-64" },
        { 18, { 0x39, 0x05 }, "machine 1337" },
        { 0, { 'M', 'Z' }, "not an ELF file" },
    };
    unsigned char *data, *copy;
    size_t bytes;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    data = file_bytes(EVIL_DIR "/good.so", &bytes);
    copy = malloc(bytes);
    assert_non_null(copy);
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        memcpy(copy, data, bytes);
        copy[rows[row].offset] = rows[row].value[0];
        if (rows[row].offset >= 16 || rows[row].offset == 0)
            copy[rows[row].offset + 1] = rows[row].value[1];
        check_corrupt(&folder, copy, bytes, rows[row].words);
    }
    free(copy);
    free(data);
    folder_remove(&folder);
}

/* Random bytes changed in the headers, notes and dynamic section. Every outcome is allowed, but the host survives. */
static void mutants(void **state)
{
    unsigned char *data, *copy;
    size_t bytes, reach;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    data = file_bytes(EVIL_DIR "/good.so", &bytes);
    copy = malloc(bytes);
    assert_non_null(copy);
    reach = bytes < 2048 ? bytes : 2048;
    for (uint64_t i = 0; i < 150; i++) {
        char path[160];
        plugin_set *set;

        memcpy(copy, data, bytes);
        for (uint64_t k = 0; k < 1 + i % 3; k++) {
            uint64_t hash = hash_u64(i, k);
            copy[hash % reach] ^= (unsigned char)(1 + (hash >> 32) % 255);
        }
        (void)snprintf(path, sizeof path, "%s/mutant.so", folder.plugins);
        file_write(path, copy, bytes);
        set = folder_search_with(&folder, (plugin_search){ .probe_ms = 1000 });
        assert_int_equal(plugin_set_file_count(set), 1);
        plugin_set_destroy(set);
    }
    free(copy);
    free(data);
    folder_remove(&folder);
}

/* The reader of notes only, on many more mutants: a corrupt file is refused or read without access out of bounds. */
static void mutants_read(void **state)
{
    static note_facts facts;
    unsigned char *data, *copy;
    uint32_t refused = 0;
    size_t bytes;
    int fd = memfd_create("mutant", MFD_CLOEXEC);

    (void)state;
    assert_true(fd >= 0);
    data = file_bytes(EVIL_DIR "/good.so", &bytes);
    copy = malloc(bytes);
    assert_non_null(copy);
    for (uint64_t i = 0; i < 6000; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        size_t reach = i % 2 == 0 ? 1024 : bytes, length = i % 5 == 0 ? hash_u64(i, 99) % bytes : bytes;

        memcpy(copy, data, bytes);
        for (uint64_t k = 0; k < 1 + i % 7; k++) {
            uint64_t hash = hash_u64(i + 1000000, k);
            copy[hash % reach] = (unsigned char)(k % 2 == 0 ? hash >> 32 : 0xff);
        }
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, copy, length, 0), length);
        if (note_read(fd, length, &facts, &diag) != INLAY_OK) {
            assert_true(diag.text[0] != '\0');
            refused++;
        } else if (note_fits_host(&facts, &diag) == INLAY_OK) {
            assert_true(strlen(facts.name) + strlen(facts.providers) + strlen(facts.domains) < NOTE_TEXT_BYTES);
        }
    }
    assert_true(refused > 1000);
    free(copy);
    free(data);
    (void)close(fd);
}

static void special_files(void **state)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char path[160];
    plugin_set *set;
    struct folder folder;
    int fd;

    (void)state;
    folder_make(&folder);
    (void)snprintf(path, sizeof path, "%s/a.so", folder.plugins);
    assert_int_equal(mkfifo(path, 0600), 0);
    (void)snprintf(path, sizeof path, "%s/b.so", folder.plugins);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/c.so", folder.plugins);
    file_write(path, "", 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/d.so", folder.plugins);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    (void)snprintf(path, sizeof path, "%s/e.so", folder.plugins);
    assert_int_equal(symlink("e.so", path), 0);
    (void)snprintf(path, sizeof path, "%s/f.so", folder.plugins);
    file_write(path, "#!/bin/sh\n", 10);
    set = folder_search(&folder);
    assert_int_equal(plugin_set_file_count(set), 6);
    expect_file(plugin_set_file(set, 0), PLUGIN_REFUSED, "not a regular file");
    expect_file(plugin_set_file(set, 1), PLUGIN_REFUSED, "not a regular file");
    expect_file(plugin_set_file(set, 2), PLUGIN_NOT_ELF, "");
    expect_file(plugin_set_file(set, 3), PLUGIN_REFUSED, "not a regular file");
    expect_file(plugin_set_file(set, 4), PLUGIN_REFUSED, "symbolic links");
    expect_file(plugin_set_file(set, 5), PLUGIN_NOT_ELF, "not an ELF file");
    plugin_set_destroy(set);
    (void)close(fd);
    folder_remove(&folder);
}

static void ten_thousand_files(void **state)
{
    char path[160];
    plugin_set *set;
    uint32_t loaded = 0;
    struct folder folder;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "good", "good");
    for (int i = 0; i < 10000; i++) {
        (void)snprintf(path, sizeof path, "%s/x%05d.so", folder.plugins, i);
        file_write(path, "\177ELF and no more", i % 2 == 0 ? 16 : 0);
    }
    set = folder_search(&folder);
    assert_int_equal(plugin_set_file_count(set), 10001);
    for (uint32_t i = 0; i < plugin_set_file_count(set); i++)
        loaded += plugin_set_file(set, i)->loaded;
    assert_int_equal(loaded, 1);
    assert_non_null(plugin_set_find(set, "good"));
    plugin_set_destroy(set);
    folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_plugins_are_classified),
        cmocka_unit_test(process_state_changes_are_reported),
        cmocka_unit_test(second_openmp_is_reported),
        cmocka_unit_test(a_probe_has_no_input),
        cmocka_unit_test(interrupts_are_no_crashes),
        cmocka_unit_test(shortages_are_no_verdicts),
        cmocka_unit_test(names_with_lines),
        cmocka_unit_test(quarantine_ends_with_a_change_or_on_request),
        cmocka_unit_test(without_probe_marks_still_count),
        cmocka_unit_test(truncated_anywhere),
        cmocka_unit_test(other_machines),
        cmocka_unit_test(mutants),
        cmocka_unit_test(mutants_read),
        cmocka_unit_test(special_files),
        cmocka_unit_test(ten_thousand_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
