#include "codecs/yaml.h"
#include "base/nearest.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_BYTES = 1 << 20 };

/* libcyaml's first message names the error; a later one has its line. */
struct complaint {
    char what[256], where[128];
};

static void collect_message(cyaml_log_t level, void *user, const char *format, va_list args)
{
    struct complaint *complaint = user;
    char line[256];
    const char *text = line;

    (void)level;
    (void)vsnprintf(line, sizeof line, format, args);
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(text, "Load: ", 6) == 0)
        text += 6;
    if (complaint->what[0] == '\0')
        (void)snprintf(complaint->what, sizeof complaint->what, "%s", text);
    else if (complaint->where[0] == '\0' && strstr(text, "line: ") != NULL)
        (void)snprintf(complaint->where, sizeof complaint->where, "%s", text + strspn(text, " "));
}

static cyaml_config_t config_of(struct complaint *complaint)
{
    return (cyaml_config_t){ .log_fn = collect_message,
                             .log_ctx = complaint,
                             .mem_fn = cyaml_mem,
                             .log_level = CYAML_LOG_ERROR,
                             .flags = CYAML_CFG_DEFAULT | CYAML_CFG_NO_ALIAS };
}

static const char *field_at(const void *fields, uint32_t i)
{
    return ((const cyaml_schema_field_t *)fields)[i].key;
}

/* Whether the file may be read; an empty one may. */
static inlay_status check_file(const char *path, uint64_t *out_bytes, inlay_diag *diag)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return inlay_fail(diag, INLAY_NOT_FOUND, "cannot read %s", path);
    if (!S_ISREG(st.st_mode) || st.st_size > MAX_BYTES)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s is not a regular file of at most 1 MiB", path);
    if ((st.st_mode & S_IWOTH) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: other users may write to it; run chmod o-w", path);
    *out_bytes = (uint64_t)st.st_size;
    return INLAY_OK;
}

inlay_status yaml_read(struct arena *arena, struct mistakes *mistakes, tree_node **out_root)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint64_t size = 0;
    size_t bytes;
    char *text;
    FILE *file;

    *out_root = NULL;
    if (check_file(mistakes->path, &size, &diag) != INLAY_OK) {
        if (mistakes->diag != NULL)
            *mistakes->diag = diag;
        if (mistakes->log != NULL)
            mistakes->log(mistakes->log_user, 0, diag.text);
        mistakes->count++;
        return diag.code;
    }
    file = fopen(mistakes->path, "re");
    text = arena_alloc(arena, MAX_BYTES);
    bytes = file != NULL && text != NULL ? fread(text, 1, MAX_BYTES, file) : 0;
    if (file != NULL)
        (void)fclose(file);
    if (text == NULL)
        return mistake_no_memory(mistakes);
    if (bytes == 0)
        return size == 0 ? INLAY_OK : mistake(mistakes, 0, INLAY_IO_ERROR, "it cannot be read");
    return tree_parse(text, bytes, arena, mistakes, out_root);
}

/* libcyaml reports an unknown key with the line of its mapping. Returns the line of the key; 0: unknown. */
static uint32_t line_of(const char *path, const char *key)
{
    struct mistakes ignored = { .path = path };
    struct arena scratch = { 0 };
    tree_node *root = NULL;
    uint32_t line = 0;

    if (yaml_read(&scratch, &ignored, &root) == INLAY_OK && root != NULL)
        for (const tree_node *item = root->first; line == 0 && item != NULL; item = item->next)
            line = item->key != NULL && strcmp(item->key, key) == 0 ? item->key_line : 0;
    arena_deinit(&scratch);
    return line;
}

static inlay_status refuse_key(const char *path, const cyaml_schema_value_t *schema, const char *key,
                               const char *otherwise, inlay_diag *diag)
{
    struct mistakes mistakes = { .path = path, .diag = diag };
    char hint[NEAREST_HINT_BYTES];
    uint32_t count = 0;

    while (schema->mapping.fields[count].key != NULL)
        count++;
    nearest_hint(hint, otherwise, key, field_at, schema->mapping.fields, count);
    return mistake(&mistakes, line_of(path, key), INLAY_INVALID_ARGUMENT, "unknown key '%s'%s", key, hint);
}

inlay_status yaml_load(const char *path, const cyaml_schema_value_t *schema, const char *otherwise, void **out_data,
                       inlay_diag *diag)
{
    static const char unknown[] = "Unexpected key: ";
    struct complaint complaint = { .what = "" };
    cyaml_config_t config = config_of(&complaint);
    uint64_t bytes = 0;
    cyaml_err_t error;
    inlay_status status = check_file(path, &bytes, diag);

    *out_data = NULL;
    if (status != INLAY_OK || bytes == 0)
        return status;
    error = cyaml_load_file(path, &config, schema, (cyaml_data_t **)out_data, NULL);
    if (error == CYAML_OK)
        return INLAY_OK;
    *out_data = NULL;
    if (error == CYAML_ERR_INVALID_KEY && strncmp(complaint.what, unknown, sizeof unknown - 1) == 0)
        return refuse_key(path, schema, complaint.what + sizeof unknown - 1, otherwise, diag);
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: %s%s%s", path,
                      complaint.what[0] != '\0' ? complaint.what : cyaml_strerror(error),
                      complaint.where[0] != '\0' ? ", " : "", complaint.where);
}

void yaml_free(const cyaml_schema_value_t *schema, void *data)
{
    struct complaint complaint = { .what = "" };
    cyaml_config_t config = config_of(&complaint);

    if (data != NULL)
        (void)cyaml_free(&config, schema, data, 0);
}
