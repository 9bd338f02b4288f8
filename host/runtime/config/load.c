#include "config/load.h"
#include "base/nearest.h"
#include "base/owner.h"
#include "base/path.h"
#include "config/document.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef environ /* a macro on Windows */
extern char **environ;
#endif

enum { MAX_FILE_BYTES = 1 << 20, READ_BYTES = 4096 };

/* Settings name plugins, which are code: only root and the user may write them. */
static inlay_status check_file(int fd, struct mistakes *mistakes)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return mistake(mistakes, 0, INLAY_IO_ERROR, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return mistake(mistakes, 0, INLAY_IO_ERROR, "not a regular file");
    if ((st.st_mode & S_IWOTH) != 0)
        return mistake(mistakes, 0, INLAY_IO_ERROR, "not read because all users may write to it: chmod o-w it");
    if (owner_group_writes(&st))
        return mistake(mistakes, 0, INLAY_IO_ERROR, "not read because group %lu may write to it: chmod g-w it",
                       (unsigned long)st.st_gid);
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return mistake(mistakes, 0, INLAY_IO_ERROR, "not read because its owner, user %lu, is neither you nor root",
                       (unsigned long)st.st_uid);
    if (st.st_size > MAX_FILE_BYTES)
        return mistake(mistakes, 0, INLAY_LIMIT_EXCEEDED, "%lld bytes; the limit for settings is %d",
                       (long long)st.st_size, MAX_FILE_BYTES);
    return INLAY_OK;
}

/* Reads the whole file into the arena; it may change during the read. */
static inlay_status read_all(int fd, struct arena *arena, struct mistakes *mistakes, char **out_text, size_t *out_bytes)
{
    size_t bytes = 0;
    char *text = NULL;

    for (;;) {
        ssize_t count;

        if (!arena_reserve(arena, &text, bytes, READ_BYTES, 1))
            return mistake_no_memory(mistakes);
        count = read(fd, text + bytes, READ_BYTES);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return mistake(mistakes, 0, INLAY_IO_ERROR, "%s", strerror(errno));
        if (count == 0)
            break;
        bytes += (size_t)count;
        if (bytes > MAX_FILE_BYTES)
            return mistake(mistakes, 0, INLAY_LIMIT_EXCEEDED, "more than %d bytes, the limit for settings",
                           MAX_FILE_BYTES);
    }
    *out_text = text;
    *out_bytes = bytes;
    return INLAY_OK;
}

/* *out_found is false, with INLAY_OK, if the file does not exist, or if it is a standard one in a place that the user
 * may not read: the folder of another user, which containers name as HOME. */
static inlay_status read_file(struct arena *arena, struct mistakes *mistakes, bool standard, char **out_text,
                              size_t *out_bytes, bool *out_found)
{
    enum { NOTE = 2 /* INLAY_LOG_INFO */ };
    char text[4200];
    int fd = open(mistakes->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* opening a FIFO must not block */
    inlay_status status;

    *out_found = fd >= 0;
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return INLAY_OK;
    if (fd < 0 && errno == EACCES && standard) {
        (void)snprintf(text, sizeof text, "%s: not read: %s", mistakes->path, strerror(errno));
        if (mistakes->log != NULL)
            mistakes->log(mistakes->log_user, NOTE, text);
        return INLAY_OK;
    }
    if (fd < 0)
        return mistake(mistakes, 0, INLAY_IO_ERROR, "%s", strerror(errno));
    status = check_file(fd, mistakes);
    if (status == INLAY_OK)
        status = read_all(fd, arena, mistakes, out_text, out_bytes);
    (void)close(fd);
    return status;
}

/* Resolves a path of a file: "~/" is the user's home, a relative path is relative to the folder of the file. NULL:
 * out of memory. */
static char *resolve_path(struct arena *arena, const char *file, const char *home, const char *path)
{
    const char *slash = strrchr(file, '/');
    char cwd[4096];

    if (path[0] == '~' && path[1] == '/' && home != NULL)
        return arena_format(arena, "%s%s", home, path + 1);
    if (path_is_absolute(path))
        return arena_string(arena, path);
    if (path_is_absolute(file))
        return arena_format(arena, "%.*s/%s", (int)(slash - file), file, path);
    if (getcwd(cwd, sizeof cwd) == NULL)
        return arena_string(arena, path);
    return slash == NULL ? arena_format(arena, "%s/%s", cwd, path)
                         : arena_format(arena, "%s/%.*s/%s", cwd, (int)(slash - file), file, path);
}

/* The value of a setting with its paths resolved; NULL: out of memory. */
static const char *resolve(struct arena *arena, const document_setting *setting, const char *file,
                           const config_user *user)
{
    uint32_t option = options_find(setting->name),
             kind = option < OPTION_COUNT ? options_kind(option) : (uint32_t)KIND_TEXT;
    char *text = NULL, *copy, *next = NULL;

    if (setting->value[0] == '\0' || (kind != KIND_PATH && kind != KIND_PATHS))
        return setting->value;
    if (kind == KIND_PATH) /* the default "auto" is a keyword, not a path */
        return strcmp(setting->value, options_text(NULL, option)) == 0
                   ? setting->value
                   : resolve_path(arena, file, user->home, setting->value);
    copy = arena_string(arena, setting->value);
    if (copy == NULL)
        return NULL;
    for (char *part = strtok_r(copy, PATH_LIST_SEPARATOR, &next); part != NULL;
         part = strtok_r(NULL, PATH_LIST_SEPARATOR, &next)) {
        char *path = resolve_path(arena, file, user->home, part);

        text = path == NULL   ? NULL
               : text == NULL ? path
                              : arena_format(arena, "%s" PATH_LIST_SEPARATOR "%s", text, path);
        if (text == NULL)
            return NULL;
    }
    return text != NULL ? text : "";
}

static struct mistakes mistakes_in(const inlay_options *options, const char *path, inlay_diag *diag)
{
    return (struct mistakes){ .path = path, .log = options->log, .log_user = options->log_user, .diag = diag };
}

/* Checks the values for their options, and the number of items. */
static inlay_status check_all(const struct document *document, struct mistakes *mistakes)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t items = 0; /* items of the current list */

    for (uint32_t i = 0; i < document->count; i++) {
        const document_setting *setting = &document->settings[i];
        inlay_status status = options_check(setting->name, setting->value, &diag);

        if (status != INLAY_OK)
            (void)mistake(mistakes, setting->line, status, "%s", diag.text);
        items = i > 0 && strcmp(setting->name, setting[-1].name) == 0 ? items : 0;
        items += setting->value[0] != '\0';
        if (items == OPTIONS_MAX_ITEMS + 1)
            (void)mistake(mistakes, setting->line, INLAY_LIMIT_EXCEEDED, "'%s' has more than %d items", setting->name,
                          OPTIONS_MAX_ITEMS);
    }
    return mistakes->count > 0 ? INLAY_INVALID_ARGUMENT : INLAY_OK;
}

static inlay_status apply_all(inlay_options *options, const struct document *document, uint32_t source,
                              const config_user *user, struct arena *arena, struct mistakes *mistakes)
{
    inlay_status status = INLAY_OK;
    inlay_diag diag = INLAY_DIAG_INIT;

    for (uint32_t i = 0; status == INLAY_OK && i < document->count; i++) {
        const document_setting *setting = &document->settings[i];
        const char *value = resolve(arena, setting, mistakes->path, user);
        char *origin = arena_format(arena, "%s:%u", mistakes->path, setting->line);

        if (value == NULL || origin == NULL)
            return mistake_no_memory(mistakes);
        status = options_set_as(options, setting->name, value, source, origin, &diag);
        if (status != INLAY_OK)
            (void)mistake(mistakes, setting->line, status, "%s", diag.text);
    }
    return status;
}

inlay_status config_load_text(inlay_options *options, const char *text, size_t bytes, const char *path, uint32_t source,
                              const config_user *user, inlay_diag *diag)
{
    struct mistakes mistakes = mistakes_in(options, path, diag);
    struct arena arena = { 0 };
    tree_node *root = NULL;
    struct document document;
    inlay_status status;

    INLAY_TRY(tree_parse(text, bytes, &arena, &mistakes, &root));
    INLAY_TRY(document_read(root, &arena, &mistakes, &document));
    INLAY_TRY(check_all(&document, &mistakes));
    INLAY_TRY(apply_all(options, &document, source, user, &arena, &mistakes));
done:
    arena_deinit(&arena);
    return status;
}

/* config_load_file() that reports a missing file by *out_found. */
static inlay_status load_if_present(inlay_options *options, const char *path, uint32_t source, const config_user *user,
                                    bool *out_found, inlay_diag *diag)
{
    struct mistakes mistakes = mistakes_in(options, path, diag);
    struct arena arena = { 0 };
    char *text = NULL;
    size_t bytes = 0;
    inlay_status status = read_file(&arena, &mistakes, source != INLAY_SOURCE_FILE, &text, &bytes, out_found);

    if (status == INLAY_OK && *out_found)
        status = config_load_text(options, text, bytes, path, source, user, diag);
    arena_deinit(&arena);
    return status;
}

inlay_status config_load_file(inlay_options *options, const char *path, uint32_t source, const config_user *user,
                              inlay_diag *diag)
{
    struct mistakes mistakes = mistakes_in(options, path, diag);
    bool found = false;
    inlay_status status = load_if_present(options, path, source, user, &found, diag);

    return status == INLAY_OK && !found ? mistake(&mistakes, 0, INLAY_NOT_FOUND, "no such file") : status;
}

/* Writes the path of the user's file into text. False (text is ""): none, see config_user_dir(). */
static bool config_user_file(const config_user *user, char *text, size_t bytes)
{
    char dir[4096];

    if (config_user_dir(user, user->config_home, ".config", dir, sizeof dir))
        return config_join(text, bytes, dir, "inlay.yaml");
    if (bytes > 0)
        text[0] = '\0';
    return false;
}

inlay_status config_load_standard(inlay_options *options, const char *system_file, const config_user *user,
                                  inlay_diag *diag)
{
    char path[4096];
    bool found;
    inlay_diag second = INLAY_DIAG_INIT;
    inlay_status status = load_if_present(options, system_file, INLAY_SOURCE_SYSTEM, user, &found, diag),
                 other = INLAY_OK;

    if (config_user_file(user, path, sizeof path)) /* report its mistakes, too */
        other = load_if_present(options, path, INLAY_SOURCE_USER, user, &found, status == INLAY_OK ? diag : &second);
    return status != INLAY_OK ? status : other;
}

/* Sets "A=1,B=2" from INLAY_OPTION; each item is PROVIDER.NAME=VALUE. */
static inlay_status set_provider_options(inlay_options *options, char *list, struct mistakes *mistakes)
{
    char *next = NULL;
    inlay_status status = INLAY_OK;
    inlay_diag diag = INLAY_DIAG_INIT;

    for (char *item = strtok_r(list, ",", &next); status == INLAY_OK && item != NULL;
         item = strtok_r(NULL, ",", &next)) {
        char *equals = strchr(item, '=');

        if (equals == NULL || memchr(item, '.', (size_t)(equals - item)) == NULL)
            return mistake(mistakes, 0, INLAY_INVALID_ARGUMENT, "'%s' is not PROVIDER.NAME=VALUE", item);
        *equals = '\0';
        status = options_set_as(options, item, equals + 1, INLAY_SOURCE_ENVIRONMENT, mistakes->path, &diag);
        if (status != INLAY_OK)
            (void)mistake(mistakes, 0, status, "%s", diag.text);
    }
    return status;
}

/* A list replaces the whole list of earlier sources; pairs are added to those of earlier sources. */
static inlay_status set_items(inlay_options *options, uint32_t option, const char *name, char *list,
                              struct mistakes *mistakes)
{
    inlay_status status = INLAY_OK;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (options_kind(option) == KIND_LIST || list[0] == '\0')
        status = options_set_as(options, name, "", INLAY_SOURCE_ENVIRONMENT, mistakes->path, &diag);
    while (status == INLAY_OK && *list != '\0') {
        char *end = list + options_item_bytes(option, list), *next = end + (*end != '\0');

        *end = '\0';
        if (end != list)
            status = options_set_as(options, name, list, INLAY_SOURCE_ENVIRONMENT, mistakes->path, &diag);
        list = next;
    }
    return status == INLAY_OK ? INLAY_OK : mistake(mistakes, 0, status, "%s", diag.text);
}

static inlay_status set_variable(inlay_options *options, uint32_t option, const char *name, const char *value,
                                 struct mistakes *mistakes)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    char *copy;

    if (option < OPTION_COUNT && options_kind(option) != KIND_LIST && options_kind(option) != KIND_PAIRS) {
        status = options_set_as(options, name, value, INLAY_SOURCE_ENVIRONMENT, mistakes->path, &diag);
        return status == INLAY_OK ? INLAY_OK : mistake(mistakes, 0, status, "%s", diag.text);
    }
    copy = strdup(value);
    if (copy == NULL)
        return mistake_no_memory(mistakes);
    status = option < OPTION_COUNT ? set_items(options, option, name, copy, mistakes)
                                   : set_provider_options(options, copy, mistakes);
    free(copy);
    return status;
}

inlay_status config_load_environment(inlay_options *options, config_variable_fn variable, const config_user *user,
                                     inlay_diag *diag)
{
    struct mistakes mistakes = mistakes_in(options, "", diag);
    inlay_option_doc doc = { .struct_size = sizeof doc };
    bool last = user->privileged;
    const char *value;
    char name[80];

    for (uint32_t i = 0; !last; i++) {
        last = options_describe(i, &doc) != INLAY_OK;
        (void)snprintf(name, sizeof name, "INLAY_%s", last ? "OPTION" : doc.name);
        for (char *letter = name; *letter != '\0'; letter++)
            *letter = (char)toupper((unsigned char)*letter);
        value = variable(name);
        mistakes.path = name;
        if (value != NULL)
            (void)set_variable(options, i, last ? "" : doc.name, value, &mistakes);
    }
    return mistakes.count > 0 ? mistakes.status : INLAY_OK;
}

void config_warn_of_slips(const inlay_options *options, char *const *environment)
{
    enum { WARNING = 1 /* INLAY_LOG_WARNING */ };
    char text[NEAREST_SLIP_BYTES];

    for (; options->log != NULL && environment != NULL && *environment != NULL; environment++)
        if (nearest_slip(text, *environment, options_name_at, NULL, OPTION_COUNT))
            options->log(options->log_user, WARNING, text);
}

static const char *process_variable(const char *name)
{
    return secure_getenv(name);
}

inlay_status options_load(inlay_options *options, const char *path, inlay_diag *diag)
{
    config_user user = config_user_of_process();

    if (path == NULL)
        return config_load_standard(options, CONFIG_SYSTEM_FILE, &user, diag);
    return config_load_file(options, path, INLAY_SOURCE_FILE, &user, diag);
}

inlay_status options_load_environment(inlay_options *options, inlay_diag *diag)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    config_user user = config_user_of_process();

    if (!user.privileged && options->log != NULL && !atomic_flag_test_and_set(&warned))
        config_warn_of_slips(options, environ);
    return config_load_environment(options, process_variable, &user, diag);
}

inlay_status options_standard_file(uint32_t index, char *text, size_t bytes)
{
    config_user user = config_user_of_process();
    char path[4096] = CONFIG_SYSTEM_FILE;

    if (bytes > 0)
        text[0] = '\0';
    if (index > 1 || (index == 1 && !config_user_file(&user, path, sizeof path)))
        return INLAY_NOT_FOUND;
    return (size_t)snprintf(text, bytes, "%s", path) < bytes ? INLAY_OK : INLAY_LIMIT_EXCEEDED;
}
