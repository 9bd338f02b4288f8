#include "files.h"
#include "base/model_folder.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool files_model(const char *given, const char *variant, char out[PATH_MAX])
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct stat st;

    if (stat(given, &st) != 0 || !S_ISDIR(st.st_mode)) {
        (void)snprintf(out, PATH_MAX, "%s", given);
        return true;
    }
    if (model_folder_find(given, variant, out, &diag) == INLAY_OK)
        return true;
    fprintf(stderr, "%s\n", diag.text);
    return false;
}

bool files_find(const char *model, const char *name, char out[PATH_MAX])
{
    for (int up = 0; up < 2; up++) {
        const char *slash = strrchr(model, '/');
        const int folder = slash == NULL ? 0 : (int)(slash - model) + 1;
        FILE *f;

        (void)snprintf(out, PATH_MAX, "%.*s%s%s", folder, model, up ? "../" : "", name);
        f = fopen(out, "r");
        if (f == NULL)
            continue;
        (void)fclose(f);
        return true;
    }
    return false;
}

static void add_end(int64_t *ends, uint32_t *count, const json_t *id)
{
    if (json_is_integer(id) && *count == MOST_ENDS)
        fprintf(stderr, "more than %d end tokens; %lld is ignored\n", MOST_ENDS, json_integer_value(id));
    else if (json_is_integer(id))
        ends[(*count)++] = json_integer_value(id);
}

uint32_t files_ends(const char *model, int64_t ends[MOST_ENDS])
{
    static const char *const names[] = { "generation_config.json", "config.json" };
    char file[PATH_MAX];
    uint32_t count = 0;

    for (int i = 0; i < 2 && count == 0; i++) {
        json_t *root = files_find(model, names[i], file) ? json_load_file(file, 0, NULL) : NULL;
        const json_t *found = json_object_get(root, "eos_token_id");

        add_end(ends, &count, found);
        for (size_t k = 0; k < json_array_size(found); k++)
            add_end(ends, &count, json_array_get(found, k));
        json_decref(root);
    }
    return count;
}
