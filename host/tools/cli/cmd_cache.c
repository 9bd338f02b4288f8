/* inlay cache: lists, clears, exports, imports and merges the files that inlay keeps between runs. */
#include "cli/cache_file.h"
#include "cli/cells.h"
#include "cli/cli.h"
#include "config/dirs.h"
#include "inlay/check.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char doc_cache[] =
    "Lists the folders of the cache with their files and bytes: packed weights, compiled regions, hashes, "
    "measurements, verdicts on plugins. Compiled regions in a folder given with --cache-dir are stored next to these "
    "folders and are not listed.\v"
    "ACTION is list (the default), prune (removes files that are recreated automatically and were not used for "
    "--days), export FILE, import FILE, check FILE or merge FILE... -o FILE. export writes the machine profile and the "
    "measurements, so that other machines of the same kind need not measure; with --all also packed weights and "
    "compiled regions. import reads such a file, merges the measurements, and keeps existing files unless --replace is "
    "given; a file that is damaged or comes from another processor is rejected. Import only files that you trust: "
    "compiled regions are executed. check tells within milliseconds whether import would accept the file on this "
    "machine, and for which machines it has parts, from their heads and the size; it does not read the contents. merge "
    "writes the parts of several exported files, of machines of different kinds, as one file, of which import uses the "
    "parts for the machine it runs on. Compiled regions of a plugin that was rebuilt since are never used.\n\n"
    "--clear removes packed weights, compiled regions and hashes, which are recreated automatically. --clear-all also "
    "removes measurements (tune) and verdicts on plugins. --cache-dir names the cache, --cache-max-bytes "
    "limits its largest part.\n\n"
    "Examples:\n"
    "  inlay cache\n"
    "  inlay cache --clear\n"
    "  inlay cache prune --days 7\n"
    "  inlay cache export fleet.cache\n"
    "  inlay cache import fleet.cache\n"
    "  inlay cache check fleet.cache\n"
    "  inlay cache merge laptop.cache server.cache -o fleet.cache\n"
    "  inlay cache --json\n";

typedef enum cache_action {
    CACHE_LIST,
    CACHE_PRUNE,
    CACHE_EXPORT,
    CACHE_IMPORT,
    CACHE_CHECK,
    CACHE_MERGE
} cache_action;
static const char *const actions[] = { "list", "prune", "export", "import", "check", "merge" };

typedef struct cache_args {
    bool clear, all;
    cache_action action;
    bool chosen;
    const char *file;                    /* of export, import and check */
    const char *parts[CACHE_FILE_PARTS]; /* the files to merge */
    uint32_t part_count;
    const char *output;
    double days;
    bool with_packs, replace;
} cache_args;

static const struct {
    const char *name, *holds;
    bool recreated; /* automatically, when it is needed again */
} kinds[] = {
    { "packs", "packed weights", true },
    { "compiled", "compiled regions", true },
    { "hashes", "content hashes of models", true },
    { "costs", "the machine's profile and measurements", false },
    { "plugins", "verdicts on plugins", false },
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

struct tally {
    uint64_t files, bytes, removed;
};

static error_t take_argument(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    cache_args *args = field;

    (void)option;
    if (args->chosen && args->action == CACHE_MERGE) {
        if (args->part_count == CACHE_FILE_PARTS)
            cli_refuse(state, CLI_USAGE, "merge takes at most %d files", CACHE_FILE_PARTS);
        args->parts[args->part_count++] = cli_input_file(state, arg);
        return 0;
    }
    if (args->chosen && args->action >= CACHE_EXPORT && args->file == NULL) {
        args->file = args->action == CACHE_EXPORT ? cli_output_file(state, arg) : cli_input_file(state, arg);
        return 0;
    }
    if (args->chosen)
        cli_refuse(state, CLI_USAGE, "unexpected argument '%s'", arg);
    args->chosen = true;
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(arg, actions[i]) == 0) {
            args->action = (cache_action)i;
            return 0;
        }
    cli_refuse(state, CLI_USAGE,
               "'%s': expected list, prune, export FILE, import FILE, check FILE or merge FILE... -o FILE", arg);
    return 0;
}

static const cli_option options_of_cache[] = {
    { "clear", NULL, "Remove files that are recreated automatically", CLI_SET(cache_args, clear) },
    { "clear-all", NULL, "Remove everything", CLI_SET(cache_args, all) },
    { "days", "N", "prune: keep files used within N days (default: 30)", CLI_NUMBER(cache_args, days, 0, 1e5) },
    { "all", NULL, "export: also packed weights and compiled regions", CLI_SET(cache_args, with_packs) },
    { "output", "FILE", "merge: the file to write; - is standard output", CLI_WRITE(cache_args, output), .key = 'o' },
    { "replace", NULL, "import: replace existing files", CLI_SET(cache_args, replace) },
    { CLI_CALL_ALL(take_argument) },
    { 0 },
};

static bool finish(void *user, struct argp_state *state)
{
    cache_args *args = user;

    args->clear |= args->all;
    if (args->action == CACHE_MERGE && (args->part_count == 0 || args->output == NULL))
        cli_refuse(state, CLI_USAGE, "merge requires the files to merge and -o FILE");
    if (args->action != CACHE_MERGE && args->output != NULL)
        cli_refuse(state, CLI_USAGE, "-o belongs to merge");
    if (args->action != CACHE_MERGE && args->action >= CACHE_EXPORT && args->file == NULL)
        cli_refuse(state, CLI_USAGE, "%s requires a file", actions[args->action]);
    if (args->chosen && args->clear)
        cli_refuse(state, CLI_USAGE, "--clear cannot be combined with an action");
    return true;
}

/* Was the file used within `days`? Reading does not update its time; cache_folder_touch() does. */
static bool is_recent(const struct stat *file, double days)
{
    return days > 0 && difftime(time(NULL), file->st_mtime) < days * 86400;
}

/* Counts the regular files of a folder; with `remove`, deletes those not used within `days`. Symbolic links are neither
 * followed nor removed. */
static inlay_status walk(const char *folder, bool remove, double days, struct tally *tally, inlay_diag *diag)
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
        tally->files++;
        tally->bytes += (uint64_t)file.st_size;
        if (!remove || is_recent(&file, days))
            continue;
        if (unlinkat(dirfd(dir), entry->d_name, 0) == 0)
            tally->removed++;
        else if (errno != ENOENT) /* another process has removed it */
            status = inlay_fail(diag, INLAY_IO_ERROR, "%.200s/%.100s: %s", folder, entry->d_name, strerror(errno));
    }
    (void)closedir(dir);
    return status;
}

static inlay_status visit_folders(const cache_args *args, const cli_common *common, struct tally *tallies, char *root,
                                  size_t bytes, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    if (!config_cache_dir(common->options, root, bytes))
        return INLAY_OK;
    for (uint32_t i = 0; i < KIND_COUNT; i++) {
        char folder[PATH_MAX + 16];

        if (snprintf(folder, sizeof folder, "%s/%s", root, kinds[i].name) < (int)sizeof folder)
            INLAY_TRY(walk(folder, (args->clear || args->action == CACHE_PRUNE) && (args->all || kinds[i].recreated),
                           args->clear ? 0 : args->days, &tallies[i], diag));
    }
done:
    return status;
}

static int print_cache(const cli_common *common, const char *root, const struct tally *tallies)
{
    enum { NAME, FILES, BYTES, REMOVED, HOLDS, COLUMNS };
    static const table_column columns[COLUMNS] = { { "part", "name", TABLE_NAME },
                                                   { "files", "files", TABLE_NUMBER },
                                                   { "size", "bytes", TABLE_NUMBER },
                                                   { NULL, "removed", TABLE_NUMBER },
                                                   { "holds", "holds", TABLE_TEXT } };
    struct table table = { .columns = columns, .column_count = COLUMNS, .indent = 2 };
    struct tally all = { 0 };

    for (uint32_t i = 0; i < KIND_COUNT; i++) {
        const struct tally *tally = &tallies[i];

        all.files += tally->files;
        all.bytes += tally->bytes;
        all.removed += tally->removed;
        table_row(&table);
        table_text(&table, NAME, kinds[i].name);
        table_text(&table, HOLDS, kinds[i].holds);
        table_whole(&table, FILES, (int64_t)tally->files);
        table_whole(&table, BYTES, (int64_t)tally->bytes);
        table_say(&table, BYTES, "%.1f MiB", (double)tally->bytes / 1048576);
        table_whole(&table, REMOVED, (int64_t)tally->removed);
        if (tally->removed > 0)
            table_say(&table, HOLDS, "%s, removed", kinds[i].holds);
    }
    if (common->json)
        return cli_print_json(common,
                              json_pack("{s:s, s:I, s:I, s:o}", "folder", root, "bytes", (json_int_t)all.bytes,
                                        "removed", (json_int_t)all.removed, "parts", cells_json(&table)),
                              CLI_OK);
    table_row(&table);
    table_text(&table, NAME, "total");
    table_whole(&table, FILES, (int64_t)all.files);
    table_say(&table, BYTES, "%.1f MiB", (double)all.bytes / 1048576);
    (void)printf("%s\n", root[0] != '\0' ? root : "no cache: option cache_dir is empty");
    if (root[0] != '\0')
        cells_print(&table);
    table_deinit(&table);
    return CLI_OK;
}

static int print_transfer(const cli_common *common, const cache_args *args, const cache_file_result *result)
{
    if (common->json)
        return cli_print_json(common,
                              json_pack("{s:s, s:s, s:i, s:i, s:I}", "action", actions[args->action], "file",
                                        args->file, "files", (int)result->files, "kept", (int)result->kept, "bytes",
                                        (json_int_t)result->bytes),
                              CLI_OK);
    (void)printf("%u files, %.1f KiB, %s %s", result->files, (double)result->bytes / 1024,
                 args->action == CACHE_EXPORT ? "written to" : "imported from", args->file);
    if (result->kept > 0)
        (void)printf("; %u existing files were kept, --replace replaces them", result->kept);
    (void)putchar('\n');
    return CLI_OK;
}

static int print_merge(const cli_common *common, const cache_args *args, const cache_file_result *result)
{
    if (common->json)
        return cli_print_json(common,
                              json_pack("{s:s, s:s, s:i, s:i, s:I}", "action", actions[args->action], "file",
                                        args->output, "parts", (int)result->files, "repeated", (int)result->kept,
                                        "bytes", (json_int_t)result->bytes),
                              CLI_OK);
    (void)printf("%u %s, %.1f KiB, written to %s", result->files, plural(result->files, "part", "parts"),
                 (double)result->bytes / 1024, args->output);
    if (result->kept > 0)
        (void)printf("; %u repeated %s skipped", result->kept, plural(result->kept, "part was", "parts were"));
    (void)putchar('\n');
    return CLI_OK;
}

/* Adds the parts to a table; returns the sums over those that are valid here. */
static cache_file_part add_parts(struct table *table, const cache_file_facts *facts)
{
    enum { CPU, THREADS, INLAY, VALID, FILES, COMPILED, PACKED, BYTES, HERE, COLUMNS };
    static const table_column columns[COLUMNS] = {
        [CPU] = { "machine", "cpu", TABLE_NAME },        [THREADS] = { "threads", "threads", TABLE_NUMBER },
        [INLAY] = { NULL, "inlay", TABLE_NAME },         [VALID] = { NULL, "valid", TABLE_NAME },
        [FILES] = { NULL, "files", TABLE_NUMBER },       [COMPILED] = { "compiled", "compiled", TABLE_NUMBER },
        [PACKED] = { "packed", "packed", TABLE_NUMBER }, [BYTES] = { "size", "bytes", TABLE_NUMBER },
        [HERE] = { "here", NULL, TABLE_NAME },
    };
    cache_file_part here = { .files = 0 };
    char bytes[FORMATTED_BYTES];

    table->columns = columns;
    table->column_count = COLUMNS;
    for (uint32_t i = 0; i < facts->part_count; i++) {
        const cache_file_part *part = &facts->parts[i];

        here.files += part->valid ? part->files : 0;
        here.compiled += part->valid ? part->compiled : 0;
        here.packed += part->valid ? part->packed : 0;
        here.bytes += part->valid ? part->bytes : 0;
        table_row(table);
        table_text(table, CPU, part->machine.cpu);
        table_whole(table, THREADS, part->machine.threads);
        table_text(table, INLAY, part->version);
        table_truth(table, VALID, part->valid, "");
        table_whole(table, FILES, part->files);
        table_whole(table, COMPILED, part->compiled);
        table_whole(table, PACKED, part->packed);
        table_whole(table, BYTES, (int64_t)part->bytes);
        table_say(table, BYTES, "%s", format_bytes(part->bytes, bytes));
        table_say(table, HERE, "%s", part->valid ? "valid" : "no");
    }
    return here;
}

static int print_check(const cli_common *common, const cache_args *args, const cache_file_facts *facts)
{
    struct table table = { 0 };
    const cache_file_part here = add_parts(&table, facts);

    if (common->json)
        return cli_print_json(common,
                              json_pack("{s:s, s:s, s:b, s:i, s:i, s:i, s:I, s:o}", "action", actions[args->action],
                                        "file", args->file, "valid", 1, "files", (int)here.files, "compiled",
                                        (int)here.compiled, "packed", (int)here.packed, "bytes", (json_int_t)here.bytes,
                                        "parts", cells_json(&table)),
                              CLI_OK);
    (void)printf("%s: valid on this machine: %u compiled regions, %u packed weights, %.1f KiB\n", args->file,
                 here.compiled, here.packed, (double)here.bytes / 1024);
    if (facts->part_count > 1)
        cells_print(&table);
    table_deinit(&table);
    return CLI_OK;
}

int cmd_cache(int argc, char **argv)
{
    static const cli_verb verb = { "[ACTION [FILE...]]", doc_cache, options_of_cache, finish };
    cache_args args = { .days = 30 };
    cache_file_result transfer;
    static cache_file_facts facts; /* large */
    inlay_status status;
    struct tally tallies[KIND_COUNT] = { 0 };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    char root[PATH_MAX];
    int code;

    cli_parse(&verb, CLI_SETTINGS_CACHE, argc, argv, &common, &args);
    if (args.action == CACHE_EXPORT)
        status = cache_file_export(&common, args.file, args.with_packs, &transfer, &diag);
    else if (args.action == CACHE_IMPORT)
        status = cache_file_import(&common, args.file, args.replace, &transfer, &diag);
    else if (args.action == CACHE_CHECK)
        status = cache_file_check(args.file, &facts, &diag);
    else if (args.action == CACHE_MERGE)
        status = cache_file_merge(args.parts, args.part_count, args.output, &transfer, &diag);
    else
        status = visit_folders(&args, &common, tallies, root, sizeof root, &diag);
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    else if (args.action == CACHE_CHECK)
        code = print_check(&common, &args, &facts);
    else if (args.action == CACHE_MERGE)
        code = print_merge(&common, &args, &transfer);
    else if (args.action >= CACHE_EXPORT)
        code = print_transfer(&common, &args, &transfer);
    else
        code = print_cache(&common, root, tallies);
    cli_common_deinit(&common);
    return code;
}
