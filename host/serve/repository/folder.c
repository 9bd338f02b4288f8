#include "serve/repository/folder.h"
#include "inlay/check.h"
#include "base/memory.h"
#include "base/model_folder.h"
#include "base/model_package.h"
#include "texts/model/image_folder.h"
#include "texts/speech/speech.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static void free_model(const found_model *model)
{
    free(model->name);
    free(model->path);
    free(model->config);
    free(model->versions);
}

void folder_deinit(struct folder *folder)
{
    for (uint32_t i = 0; i < folder->count; i++)
        free_model(&folder->models[i]);
    free(folder->models);
    *folder = (struct folder){ .models = NULL };
}

bool folder_is_name(const char *name, size_t bytes)
{
    if (bytes == 0 || bytes > 128 || name[0] == '.')
        return false;
    for (size_t i = 0; i < bytes; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
              c == '-'))
            return false;
    }
    return true;
}

static int by_number(const void *left, const void *right)
{
    uint64_t left_number = *(const uint64_t *)left, right_number = *(const uint64_t *)right;

    return (left_number > right_number) - (left_number < right_number);
}

static int by_name(const void *left, const void *right)
{
    return strcmp(((const found_model *)left)->name, ((const found_model *)right)->name);
}

static bool is_version(const char *name, uint64_t *out)
{
    char *end;

    if (name[0] < '1' || name[0] > '9' || strlen(name) > 18)
        return false;
    *out = strtoull(name, &end, 10);
    return *end == '\0';
}

static bool is_file(const char *folder_path, const char *name, const char *suffix)
{
    char path[4096];
    struct stat st;
    int bytes = snprintf(path, sizeof path, "%s/%s%s", folder_path, name, suffix);

    return bytes > 0 && (size_t)bytes < sizeof path && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool folder_file(const char *folder_path, char path[FOLDER_PATH_BYTES])
{
    const bool is_gguf = !is_file(folder_path, "model", ".onnx") && is_file(folder_path, "model", ".gguf");

    (void)snprintf(path, FOLDER_PATH_BYTES, "%.*s/model.%s", FOLDER_PATH_BYTES - 16, folder_path,
                   is_gguf ? "gguf" : "onnx");
    return is_gguf || is_file(folder_path, "model", ".onnx");
}

/* The kind of a model in a folder of its own; FOLDER_FILE: it has no parts. */
static folder_kind kind_of(const char *path)
{
    return speech_is_folder(path) ? FOLDER_SPEECH : image_folder_is(path) ? FOLDER_IMAGES : FOLDER_FILE;
}

folder_kind folder_kind_of(const found_model *model, uint64_t version, char path[FOLDER_PATH_BYTES])
{
    char file[FOLDER_PATH_BYTES];

    path[0] = '\0';
    if (model->is_folder) {
        (void)snprintf(path, FOLDER_PATH_BYTES, "%.*s/%llu", FOLDER_PATH_BYTES - 32, model->path,
                       (unsigned long long)version);
        return folder_file(path, file) ? FOLDER_FILE : kind_of(path);
    }
    if (model->config == NULL)
        return FOLDER_FILE;
    (void)snprintf(path, FOLDER_PATH_BYTES, "%s", model->config);
    return kind_of(path);
}

/* A folder that cannot be opened is skipped, unless it can be at another time: a model would seem to be removed. */
static inlay_status check_opened(const DIR *dir, const char *path, inlay_diag *diag)
{
    const char *why = strerror(errno);

    return dir != NULL || !is_shortage(why) ? INLAY_OK : inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, why);
}

static inlay_status no_memory_for_list(inlay_diag *diag)
{
    return no_memory(diag, "for the list of models");
}

/* Finds the numbered subfolders, with or without a model. */
static inlay_status find_versions(found_model *model, bool has_file, inlay_diag *diag)
{
    DIR *dir = opendir(model->path);
    inlay_status status = check_opened(dir, model->path, diag);
    const struct dirent *entry;
    bool good = true;

    while (good && dir != NULL && (entry = readdir(dir)) != NULL) {
        char folder_path[FOLDER_PATH_BYTES], file[FOLDER_PATH_BYTES];
        uint64_t version;

        if (!is_version(entry->d_name, &version))
            continue;
        (void)snprintf(folder_path, sizeof folder_path, "%.3000s/%s", model->path, entry->d_name);
        if (has_file && !folder_file(folder_path, file) && kind_of(folder_path) == FOLDER_FILE)
            continue;
        good = LIST_GROW(model->versions, model->version_count);
        if (good)
            model->versions[model->version_count++] = version;
    }
    if (dir != NULL)
        (void)closedir(dir);
    if (model->version_count > 0)
        qsort(model->versions, model->version_count, sizeof *model->versions, by_number);
    return good ? status : no_memory_for_list(diag);
}

/* A folder with config.pbtxt but without any model is that of an ensemble: its versions are empty folders, or it
 * has none and is version 1. */
static inlay_status read_versions(found_model *model, inlay_diag *diag)
{
    inlay_status status = find_versions(model, true, diag);
    char file[FOLDER_PATH_BYTES];

    if (status != INLAY_OK || model->version_count > 0 || !is_file(model->path, "config", ".pbtxt") ||
        folder_file(model->path, file))
        return status;
    status = find_versions(model, false, diag);
    if (status != INLAY_OK || model->version_count > 0)
        return status;
    if (!LIST_GROW(model->versions, 0))
        return no_memory_for_list(diag);
    model->versions[model->version_count++] = 1;
    return INLAY_OK;
}

/* Appends a model with the first name_bytes of `name` as its name. config: see found_model; copied. */
static inlay_status add(struct folder *folder, const char *name, size_t name_bytes, const char *path,
                        const char *config, bool is_folder, inlay_diag *diag)
{
    found_model *model;

    if (!LIST_GROW(folder->models, folder->count))
        return no_memory_for_list(diag);
    model = &folder->models[folder->count++];
    *model = (found_model){ .name = strndup(name, name_bytes),
                            .path = strdup(path),
                            .config = config != NULL ? strdup(config) : NULL,
                            .is_folder = is_folder };
    if (model->name == NULL || model->path == NULL || (config != NULL && model->config == NULL))
        return no_memory_for_list(diag);
    if (is_folder)
        return read_versions(model, diag);
    if (!LIST_GROW(model->versions, 0))
        return no_memory_for_list(diag);
    model->versions[0] = 1;
    model->version_count = 1;
    return INLAY_OK;
}

enum { PART_END = sizeof "-00001-of-00001.gguf" - 1 };

/* Whether a file is a part of a model that llama.cpp split, NAME-00001-of-00004.gguf, and which of how many. */
static bool is_part(const char *path, unsigned *number, unsigned *count)
{
    const size_t bytes = strlen(path);
    int read = 0;

    return bytes > PART_END && sscanf(path + bytes - PART_END, "-%5u-of-%5u.gguf%n", number, count, &read) == 2 &&
           read == PART_END;
}

/* Whether the folder has an earlier part of the same model, by which the model is found. If part 1 is missing, the
 * model has a later one, and its load fails with the name of the missing part. */
static bool follows_part(const char *folder_path, const char *name)
{
    char earlier[40];
    unsigned number = 0, count = 0;
    bool follows = false;

    if (!is_part(name, &number, &count))
        return false;
    for (unsigned i = 1; i < number && !follows; i++) {
        char stem[NAME_MAX + 1];

        (void)snprintf(stem, sizeof stem, "%.*s", (int)(strlen(name) - PART_END), name);
        (void)snprintf(earlier, sizeof earlier, "-%05u-of-%05u.gguf", i, count);
        follows = is_file(folder_path, stem, earlier);
    }
    return follows;
}

/* Length of NAME in NAME.onnx, NAME.gguf and the names of parts of NAME; 0 for other names. */
static size_t stem_bytes(const char *name)
{
    const size_t bytes = strlen(name);
    unsigned number, count;

    if (is_part(name, &number, &count))
        return bytes - PART_END;
    return bytes > 5 && (strcmp(name + bytes - 5, ".onnx") == 0 || strcmp(name + bytes - 5, ".gguf") == 0) ? bytes - 5
                                                                                                           : 0;
}

/* Adds a model package, of which a session chooses a variant, unless one is named. */
static inlay_status add_package(struct folder *folder, const char *path, const char *name, const char *variant,
                                inlay_diag *diag)
{
    const package_variant *found = NULL;
    model_package package;
    inlay_status status = package_read(path, &package, diag);

    if (status == INLAY_OK && variant[0] != '\0')
        status = package_find(&package, path, variant, &found, diag);
    if (status == INLAY_OK)
        status = add(folder, name, strlen(name), found != NULL ? found->file : path, path, false, diag);
    package_deinit(&package);
    return status;
}

/* Adds a file of a model in the folder `path` as Hugging Face publishes it. */
static inlay_status add_published_file(struct folder *folder, const char *path, const char *name, const char *file,
                                       inlay_diag *diag)
{
    if (!folder_is_name(name, strlen(name)))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "'%s' is not a name of a model: letters, digits, '.', '_' and '-', at most %d; rename the "
                          "folder, or set model_name",
                          name, FOLDER_MAX_NAME);
    return add(folder, name, strlen(name), file, path, false, diag);
}

/* Adds a model for speech, by its encoder, or one that reads images, by its decoder. */
static inlay_status add_parts(struct folder *folder, const char *path, const char *name, const char *variant,
                              folder_kind kind, inlay_diag *diag)
{
    speech_files speech = { .encoder = "" };
    image_files images = { .decoder = "" };
    const inlay_status status = kind == FOLDER_SPEECH ? speech_files_find(path, variant, &speech, diag)
                                                      : image_files_find(path, variant, &images, diag);

    return status == INLAY_OK
               ? add_published_file(folder, path, name, kind == FOLDER_SPEECH ? speech.encoder : images.decoder, diag)
               : status;
}

/* Adds the parts of a model as Hugging Face publishes it; nothing, if the folder is none, or has versions. */
static inlay_status add_published(struct folder *folder, const char *path, const char *name, const char *variant,
                                  inlay_diag *diag)
{
    const folder_kind kind = kind_of(path);
    model_folder parts;
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    if (package_is(path))
        return add_package(folder, path, name, variant, diag);
    if (kind != FOLDER_FILE)
        return add_parts(folder, path, name, variant, kind, diag);
    status = model_folder_read(path, &parts, &why);
    if (status != INLAY_OK && is_shortage(why.text))
        return inlay_fail(diag, INLAY_IO_ERROR, "%s", why.text);
    if (status != INLAY_OK || !parts.is_published)
        return INLAY_OK;
    for (uint32_t i = 0; i < parts.count && status == INLAY_OK; i++) {
        char full[2 * FOLDER_MAX_NAME + 2], file[PATH_MAX];

        (void)snprintf(full, sizeof full, parts.count > 1 ? "%s.%s" : "%s", name, parts.parts[i]);
        status = model_folder_choose(&parts, i, variant, file, diag);
        if (status == INLAY_OK)
            status = add_published_file(folder, path, full, file, diag);
    }
    return status;
}

/* Notes a file or a folder whose name no model can have. */
static void refuse_name(struct folder *folder, const char *name)
{
    folder->refused_count++;
    (void)snprintf(folder->refused, sizeof folder->refused, "%s", name);
}

/* Whether the folder, whose name no model can have, has versions. */
static bool has_versions(const char *path)
{
    found_model model = { .path = (char *)(uintptr_t)path };
    bool has = find_versions(&model, true, NULL) == INLAY_OK && model.version_count > 0;

    free(model.versions);
    return has;
}

static inlay_status add_entry(struct folder *folder, const char *path, const char *name, const char *variant,
                              inlay_diag *diag)
{
    size_t bytes = stem_bytes(name);
    char full[4096];
    struct stat st;
    int full_bytes = snprintf(full, sizeof full, "%s/%s", path, name);
    inlay_status status = INLAY_OK;

    if (full_bytes < 0 || (size_t)full_bytes >= sizeof full || stat(full, &st) != 0)
        return INLAY_OK;
    if (follows_part(path, name))
        return INLAY_OK;
    if (S_ISREG(st.st_mode) && folder_is_name(name, bytes))
        status = add(folder, name, bytes, full, NULL, false, diag);
    else if (S_ISREG(st.st_mode) ? bytes > 0
                                 : name[0] != '.' && !folder_is_name(name, strlen(name)) && has_versions(full))
        refuse_name(folder, name);
    if (!S_ISDIR(st.st_mode) || !folder_is_name(name, strlen(name)))
        return status;
    status = add(folder, name, strlen(name), full, full, true, diag);
    return status == INLAY_OK && folder->models[folder->count - 1].version_count == 0
               ? add_published(folder, full, name, variant, diag)
               : status;
}

/* Sorts the models. If a file and a folder have the same name, the folder is used. Folders without versions are
 * removed. */
static void sort_unique(struct folder *folder)
{
    uint32_t kept = 0;

    if (folder->count > 0)
        qsort(folder->models, folder->count, sizeof *folder->models, by_name);
    for (uint32_t i = 0; i < folder->count; i++) {
        found_model *model = &folder->models[i];
        bool duplicate = kept > 0 && strcmp(folder->models[kept - 1].name, model->name) == 0;

        INLAY_CHECK(kept <= i);
        if (model->version_count == 0 || (duplicate && !model->is_folder)) {
            free_model(model);
            continue;
        }
        if (duplicate)
            free_model(&folder->models[--kept]);
        folder->models[kept++] = *model;
    }
    folder->count = kept;
}

/* Whether the folder itself is a model: it has versions, or a file model.onnx or model.gguf. */
static inlay_status add_itself(struct folder *folder, const char *path, const char *name, bool *out_is_model,
                               inlay_diag *diag)
{
    char file[FOLDER_PATH_BYTES];
    const inlay_status status = add(folder, name, strlen(name), path, path, true, diag);

    if (status != INLAY_OK)
        return status;
    *out_is_model = folder->models[0].version_count > 0;
    if (*out_is_model)
        return INLAY_OK;
    folder_deinit(folder);
    *out_is_model = folder_file(path, file);
    if (!*out_is_model)
        return INLAY_OK;
    return add(folder, name, strlen(name), file, path, false, diag);
}

static inlay_status add_entries(struct folder *folder, const char *path, const char *variant, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    DIR *dir = opendir(path);
    const struct dirent *entry;

    if (dir == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    while (status == INLAY_OK && (entry = readdir(dir)) != NULL)
        status = add_entry(folder, path, entry->d_name, variant, diag);
    (void)closedir(dir);
    return status;
}

/* The last name of the folder's path, without links; "": out of memory, or the path is not readable. */
static void name_of_folder(const char *path, char out[FOLDER_MAX_NAME + 1])
{
    char *real = realpath(path, NULL);
    const char *slash = real != NULL ? strrchr(real, '/') : NULL;

    (void)snprintf(out, FOLDER_MAX_NAME + 1, "%s", slash != NULL ? slash + 1 : "");
    free(real);
}

/* Reads a folder that is a model, or has models. */
static inlay_status read_folder(const char *path, const char *name, const char *variant, struct folder *folder,
                                inlay_diag *diag)
{
    char itself[FOLDER_MAX_NAME + 1];
    bool is_model = false;
    inlay_status status = INLAY_OK;

    if (name[0] != '\0')
        status = add_itself(folder, path, name, &is_model, diag);
    if (status != INLAY_OK || is_model)
        return status;
    name_of_folder(path, itself);
    status = add_published(folder, path, name[0] != '\0' ? name : itself, variant, diag);
    return status == INLAY_OK && folder->count == 0 ? add_entries(folder, path, variant, diag) : status;
}

/* Gives the only model its name. */
static inlay_status rename_model(struct folder *folder, const char *path, const char *name, inlay_diag *diag)
{
    char *copy;

    if (folder->count > 1)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "model_name: %s has %u models; remove the setting, or pass the path of one model", path,
                          folder->count);
    copy = strdup(name);
    if (copy == NULL)
        return no_memory_for_list(diag);
    if (folder->count == 0) {
        free(copy);
        return INLAY_OK;
    }
    free(folder->models[0].name);
    folder->models[0].name = copy;
    return INLAY_OK;
}

inlay_status folder_read(const char *path, const char *name, const char *variant, struct folder *out_folder,
                         inlay_diag *diag)
{
    const char *base = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    inlay_status status = INLAY_OK;
    struct stat st;

    *out_folder = (struct folder){ .models = NULL };
    if (name[0] != '\0' && !folder_is_name(name, strlen(name)))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "model_name: '%s' is not a name: letters, digits, '.', '_' and '-', at most %d", name,
                          FOLDER_MAX_NAME);
    if (stat(path, &st) != 0)
        return inlay_fail(diag, INLAY_NOT_FOUND, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode)) {
        if (stem_bytes(base) == 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s is neither a folder nor a file NAME.onnx or NAME.gguf",
                              path);
        if (!folder_is_name(base, stem_bytes(base)) && name[0] == '\0')
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "%s: the name of a model has letters, digits, '.', '_' and '-', and at most %d bytes; "
                              "rename the file, or set model_name",
                              path, FOLDER_MAX_NAME);
        status = add(out_folder, base, stem_bytes(base), path, NULL, false, diag);
    } else {
        status = read_folder(path, name, variant, out_folder, diag);
    }
    if (status == INLAY_OK)
        sort_unique(out_folder);
    if (status == INLAY_OK && name[0] != '\0')
        status = rename_model(out_folder, path, name, diag);
    if (status != INLAY_OK)
        folder_deinit(out_folder);
    return status;
}

static uint64_t mix(uint64_t sum, uint64_t value)
{
    sum = (sum ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return sum ^ sum >> 29;
}

typedef struct files_state {
    uint64_t sum;           /* a hash */
    struct timespec newest; /* modification time of the file that was written last */
} files_state;

static void mix_file(files_state *state, const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        state->sum = mix(state->sum, 1);
        return;
    }
    state->sum = mix(state->sum, (uint64_t)st.st_ino);
    state->sum = mix(state->sum, (uint64_t)st.st_size);
    state->sum = mix(state->sum, (uint64_t)st.st_mtim.tv_sec);
    state->sum = mix(state->sum, (uint64_t)st.st_mtim.tv_nsec);
    if (st.st_mtim.tv_sec > state->newest.tv_sec ||
        (st.st_mtim.tv_sec == state->newest.tv_sec && st.st_mtim.tv_nsec > state->newest.tv_nsec))
        state->newest = st.st_mtim;
}

/* Finds the files of a split model; the path names one of them. */
static void mix_parts(files_state *state, const char *path, unsigned count)
{
    char part[PATH_MAX];

    for (unsigned i = 1; i <= count; i++) {
        (void)snprintf(part, sizeof part, "%.*s-%05u-of-%05u.gguf", (int)(strlen(path) - PART_END), path, i, count);
        mix_file(state, part);
    }
}

static const char *const adapter_files[] = { "adapter_model.safetensors", "adapter_model.gguf", "adapter_config.json" };

static void free_adapter(const struct folder_adapters *adapters, uint32_t i)
{
    free(adapters->names[i]);
    free(adapters->paths[i]);
}

void folder_adapters_deinit(struct folder_adapters *adapters)
{
    for (uint32_t i = 0; i < adapters->count; i++)
        free_adapter(adapters, i);
    free(adapters->names);
    free(adapters->paths);
    *adapters = (struct folder_adapters){ .names = NULL };
}

bool folder_adapters_add(struct folder_adapters *adapters, const char *name, const char *path)
{
    char *name_copy = strdup(name), *path_copy = strdup(path);
    uint32_t at = adapters->count;

    if (name_copy == NULL || path_copy == NULL || !LIST_GROW(adapters->names, adapters->count) ||
        !LIST_GROW(adapters->paths, adapters->count)) {
        free(name_copy);
        free(path_copy);
        return false;
    }
    for (; at > 0 && strcmp(adapters->names[at - 1], name) > 0; at--) {
        adapters->names[at] = adapters->names[at - 1];
        adapters->paths[at] = adapters->paths[at - 1];
    }
    adapters->names[at] = name_copy;
    adapters->paths[at] = path_copy;
    adapters->count++;
    return true;
}

void folder_adapters_remove(struct folder_adapters *adapters, const char *name)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < adapters->count; i++) {
        if (strcmp(adapters->names[i], name) == 0) {
            free_adapter(adapters, i);
            continue;
        }
        adapters->names[kept] = adapters->names[i];
        adapters->paths[kept++] = adapters->paths[i];
    }
    adapters->count = kept;
}

inlay_status folder_adapters_find(const found_model *model, uint64_t version, struct folder_adapters *out,
                                  inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    char folder[4096], path[4600];
    DIR *dir = NULL;
    struct dirent *entry;

    *out = (struct folder_adapters){ .names = NULL };
    if (!model->is_folder)
        return INLAY_OK;
    (void)snprintf(folder, sizeof folder, "%s/%llu/adapters", model->path, (unsigned long long)version);
    dir = opendir(folder);
    if (dir == NULL) {
        (void)snprintf(folder, sizeof folder, "%s/adapters", model->path);
        dir = opendir(folder);
    }
    status = check_opened(dir, folder, diag);
    while (dir != NULL && status == INLAY_OK && (entry = readdir(dir)) != NULL) {
        char name[300];
        bool has = false;

        for (int i = 0; i < 2; i++) {
            (void)snprintf(name, sizeof name, "%s/%s", entry->d_name, adapter_files[i]);
            has |= is_file(folder, name, "");
        }
        if (!has || !folder_is_name(entry->d_name, strlen(entry->d_name)))
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (!folder_adapters_add(out, entry->d_name, path))
            status = no_memory(diag, "for the adapters of model '%s'", model->name);
    }
    if (dir != NULL)
        (void)closedir(dir);
    if (status != INLAY_OK)
        folder_adapters_deinit(out);
    return status;
}

static void mix_adapters(files_state *state, const found_model *model, uint64_t version)
{
    struct folder_adapters adapters;
    char path[4600];

    if (folder_adapters_find(model, version, &adapters, NULL) != INLAY_OK)
        return;
    for (uint32_t i = 0; i < adapters.count; i++)
        for (size_t k = 0; k < sizeof adapter_files / sizeof *adapter_files; k++) {
            (void)snprintf(path, sizeof path, "%s/%s", adapters.paths[i], adapter_files[k]);
            mix_file(state, path);
        }
    folder_adapters_deinit(&adapters);
}

bool folder_part(const found_model *model, uint64_t version, const char *name, char path[FOLDER_PATH_BYTES])
{
    char folder_path[FOLDER_PATH_BYTES - 16];

    if (!model->is_folder)
        return false;
    (void)snprintf(folder_path, sizeof folder_path, "%s/%llu/%s", model->path, (unsigned long long)version, name);
    if (folder_file(folder_path, path))
        return true;
    (void)snprintf(folder_path, sizeof folder_path, "%s/%s", model->path, name);
    return folder_file(folder_path, path);
}

/* The draft model and the vision part, and the files of a head (texts/draft/head.h). */
static void mix_part(files_state *state, const found_model *model, uint64_t version, const char *name)
{
    static const char *const files[] = { "model.onnx", "model.gguf", "config.json", "d2t.safetensors" };
    char path[FOLDER_PATH_BYTES], file[FOLDER_PATH_BYTES + 100];

    if (!folder_part(model, version, name, path))
        return;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(file, sizeof file, "%.*s/%s", (int)(strrchr(path, '/') - path), path, files[i]);
        mix_file(state, file);
    }
}

static void mix_package(files_state *state, const char *path)
{
    model_package package;

    if (package_read(path, &package, NULL) == INLAY_OK)
        for (uint32_t i = 0; i < package.count; i++)
            if (package.variants[i].file != NULL)
                mix_file(state, package.variants[i].file);
    package_deinit(&package);
}

static int is_onnx(const struct dirent *entry)
{
    const size_t bytes = strlen(entry->d_name);

    return bytes > 5 && strcmp(entry->d_name + bytes - 5, ".onnx") == 0;
}

/* The files of a model in parts, whose variants may differ. */
static void mix_parts_in(files_state *state, const char *path)
{
    struct dirent **entries = NULL;
    model_folder parts;
    char file[2 * PATH_MAX];
    int count;

    if (model_folder_read(path, &parts, NULL) != INLAY_OK)
        return;
    count = scandir(parts.path, &entries, is_onnx, alphasort);
    for (int i = 0; i < count; i++) {
        (void)snprintf(file, sizeof file, "%s/%s", parts.path, entries[i]->d_name);
        mix_file(state, file);
        free(entries[i]);
    }
    free(entries);
}

static files_state state_of(const found_model *model, uint64_t version)
{
    char path[FOLDER_PATH_BYTES], version_path[FOLDER_PATH_BYTES - 16];
    files_state state = { .sum = 0 };
    unsigned number, count;

    if (model->config != NULL) {
        (void)snprintf(path, sizeof path, "%s/config.yaml", model->config);
        mix_file(&state, path);
        (void)snprintf(path, sizeof path, "%s/config.pbtxt", model->config);
        mix_file(&state, path);
    }
    if (!model->is_folder) {
        mix_file(&state, model->path);
        if (is_part(model->path, &number, &count))
            mix_parts(&state, model->path, count);
        if (package_is(model->path))
            mix_package(&state, model->path);
        if (folder_kind_of(model, version, path) != FOLDER_FILE)
            mix_parts_in(&state, path);
        return state;
    }
    for (uint32_t i = 0; i < model->version_count; i++) {
        if (version != 0 && model->versions[i] != version)
            continue;
        (void)snprintf(version_path, sizeof version_path, "%s/%llu", model->path,
                       (unsigned long long)model->versions[i]);
        if (folder_kind_of(model, model->versions[i], path) != FOLDER_FILE)
            mix_parts_in(&state, path);
        (void)folder_file(version_path, path);
        mix_part(&state, model, model->versions[i], "draft");
        mix_part(&state, model, model->versions[i], "vision");
        state.sum = mix(state.sum, model->versions[i]);
        mix_file(&state, path);
        mix_adapters(&state, model, model->versions[i]);
    }
    return state;
}

uint64_t folder_state(const found_model *model, uint64_t version)
{
    return state_of(model, version).sum | 1;
}

bool folder_is_written(const found_model *model)
{
    const struct timespec newest = state_of(model, 0).newest;
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec < newest.tv_sec + 1 || (now.tv_sec == newest.tv_sec + 1 && now.tv_nsec < newest.tv_nsec);
}
