/* inlay cache: what is kept between runs, and how much of it. */
#include "cli/cli.h"
#include "config/dirs.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char doc[] =
    "Lists the folders of the cache with their files and bytes: packed weights, compiled regions, hashes, measurements, "
    "verdicts on plugins. Compiled regions in a --cache-dir of yours lie beside these folders and are not listed.\v"
    "--clear removes packed weights, compiled regions and hashes, which come again by themselves. --clear-all removes "
    "what was measured (calibrate, tune) and what was learnt about plugins as well. --cache-dir names the cache, "
    "--cache-max-bytes limits its largest part.\n\n"
    "Examples:\n"
    "  inlay cache\n"
    "  inlay cache --clear\n"
    "  inlay cache --json\n";

enum { KEY_CLEAR = 0x4000, KEY_CLEAR_ALL };
static const struct argp_option flags[] = {
    { "clear", KEY_CLEAR, NULL, 0, "Remove what is made again by itself", 0 },
    { "clear-all", KEY_CLEAR_ALL, NULL, 0, "Remove everything", 0 },
    { 0 },
};

typedef struct cache_args {
    bool clear, all;
} cache_args;

static const struct {
    const char *name, *holds;
    bool remade; /* without anybody asking */
} kinds[] = {
    { "packs", "packed weights", true },
    { "compiled", "compiled regions", true },
    { "hashes", "content hashes of models", true },
    { "costs", "the machine's profile and measurements", false },
    { "plugins", "verdicts on plugins", false },
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

typedef struct tally {
    uint64_t files, bytes, removed;
} tally;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    cache_args *args = state->input;

    if (key == KEY_CLEAR || key == KEY_CLEAR_ALL) {
        args->clear = true;
        args->all |= key == KEY_CLEAR_ALL;
        return 0;
    }
    if (key == ARGP_KEY_ARG)
        argp_error(state, "'%s': this verb takes no arguments", arg);
    return key == ARGP_KEY_ARG ? 0 : ARGP_ERR_UNKNOWN;
}

/* Counts the regular files of a folder, and removes them. Links are left alone, whatever they lead to. */
static inlay_status walk(const char *folder, bool remove, tally *t, inlay_diag *diag)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    inlay_status status = INLAY_OK;

    if (dir == NULL)
        return errno == ENOENT ? INLAY_OK : inlay_fail(diag, INLAY_IO_ERROR, "%.300s: %s", folder, strerror(errno));
    while (status == INLAY_OK && (entry = readdir(dir)) != NULL) {
        struct stat file;

        if (fstatat(dirfd(dir), entry->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(file.st_mode))
            continue;
        t->files++;
        t->bytes += (uint64_t)file.st_size;
        if (!remove)
            continue;
        if (unlinkat(dirfd(dir), entry->d_name, 0) == 0)
            t->removed++;
        else if (errno != ENOENT) /* another process was faster */
            status = inlay_fail(diag, INLAY_IO_ERROR, "%.200s/%.100s: %s", folder, entry->d_name, strerror(errno));
    }
    (void)closedir(dir);
    return status;
}

static json_t *kind_json(uint32_t i, const tally *t)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:I}", "name", kinds[i].name, "holds", kinds[i].holds, "files",
                     (json_int_t)t->files, "bytes", (json_int_t)t->bytes, "removed", (json_int_t)t->removed);
}

static inlay_status look(const cache_args *args, const cli_common *common, tally *tallies, char *root, size_t bytes,
                         inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    if (!config_cache_dir(common->options, root, bytes))
        return INLAY_OK;
    for (uint32_t i = 0; i < KIND_COUNT; i++) {
        char folder[PATH_MAX + 16];

        if (snprintf(folder, sizeof folder, "%s/%s", root, kinds[i].name) < (int)sizeof folder)
            INLAY_TRY(walk(folder, args->clear && (args->all || kinds[i].remade), &tallies[i], diag));
    }
done:
    return status;
}

static int print_cache(const cli_common *common, const char *root, const tally *tallies)
{
    tally all = { 0 };
    json_t *list = json_array();

    for (uint32_t i = 0; i < KIND_COUNT; i++) {
        all.files += tallies[i].files;
        all.bytes += tallies[i].bytes;
        all.removed += tallies[i].removed;
        (void)json_array_append_new(list, kind_json(i, &tallies[i]));
    }
    if (common->json)
        return cli_print_json(common, json_pack("{s:s, s:I, s:I, s:o}", "folder", root, "bytes", (json_int_t)all.bytes,
                                                "removed", (json_int_t)all.removed, "parts", list), CLI_OK);
    json_decref(list);
    if (root[0] == '\0') {
        (void)printf("no cache: option cache_dir is empty\n");
        return CLI_OK;
    }
    (void)printf("%s\n", root);
    for (uint32_t i = 0; i < KIND_COUNT; i++)
        (void)printf("  %-9s %6llu files %10.1f MiB  %s%s\n", kinds[i].name, (unsigned long long)tallies[i].files,
                     (double)tallies[i].bytes / 1048576, kinds[i].holds, tallies[i].removed > 0 ? ", removed" : "");
    (void)printf("  %-9s %6llu files %10.1f MiB\n", "together", (unsigned long long)all.files,
                 (double)all.bytes / 1048576);
    return CLI_OK;
}

int cmd_cache(int argc, char **argv)
{
    static const struct argp argp = { flags, parse, NULL, doc, NULL, NULL, NULL };
    cache_args args = { false, false };
    tally tallies[KIND_COUNT] = { 0 };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    char root[PATH_MAX];
    int code;

    cli_parse(&argp, true, argc, argv, &common, &args);
    code = look(&args, &common, tallies, root, sizeof root, &diag) == INLAY_OK ? print_cache(&common, root, tallies)
                                                                               : cli_fail(&common, &diag);
    cli_common_deinit(&common);
    return code;
}
