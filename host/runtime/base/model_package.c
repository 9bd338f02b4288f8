#include "base/model_package.h"
#include "base/memory.h"
#include "base/path.h"
#include "base/strbuf.h"
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MANIFEST "manifest.json"
#define COMPONENT "component.json"
#define ASSET "sha256:"
enum { DIGEST = 64 };

struct reader {
    const char *root;
    char real_root[PATH_MAX];
    const json_t *assets; /* shared_assets; NULL: none */
    bool installed;       /* paths may leave the package */
    inlay_diag *diag;
};

static bool join(char out[PATH_MAX], const char *folder, const char *name)
{
    const int bytes =
        path_is_absolute(name) ? snprintf(out, PATH_MAX, "%s", name) : snprintf(out, PATH_MAX, "%s/%s", folder, name);

    return bytes >= 0 && bytes < PATH_MAX;
}

static inlay_status refuse(const struct reader *reader, const char *where, const char *what)
{
    return inlay_fail(reader->diag, INLAY_INVALID_MODEL, "%.300s/" MANIFEST ": %.100s: %.200s", reader->root, where,
                      what);
}

/* Resolves a reference: a path relative to `folder`, or sha256:DIGEST[/PATH], which is in the folder of a shared asset.
 * The target exists and, unless the package is installed, is inside the package. */
static inlay_status resolve(const struct reader *reader, const char *where, const char *folder, const char *text,
                            char out[PATH_MAX])
{
    const size_t root_bytes = strlen(reader->real_root);
    char path[PATH_MAX], asset[PATH_MAX], name[DIGEST + sizeof "shared_assets/sha256-"];
    const char *moved = NULL;

    if (strncmp(text, ASSET, sizeof ASSET - 1) == 0) {
        const char *digest = text + sizeof ASSET - 1, *rest = digest + strspn(digest, "0123456789abcdef");
        char key[sizeof ASSET + DIGEST];

        if (rest - digest != DIGEST || (*rest != '\0' && *rest != '/'))
            return refuse(reader, where, "a shared asset is sha256: and 64 hex digits");
        (void)snprintf(key, sizeof key, "%.*s", (int)(rest - text), text);
        (void)snprintf(name, sizeof name, "shared_assets/sha256-%.*s", DIGEST, digest);
        moved = json_string_value(json_object_get(reader->assets, key));
        if (!join(asset, reader->root, moved != NULL ? moved : name) ||
            !join(path, asset, *rest == '/' ? rest + 1 : "."))
            return refuse(reader, where, "the path is too long");
    } else if (!join(path, folder, text)) {
        return refuse(reader, where, "the path is too long");
    }
    if (realpath(path, out) == NULL)
        return inlay_fail(reader->diag, INLAY_NOT_FOUND, "%.300s/" MANIFEST ": %.100s: there is no %.300s",
                          reader->root, where, path);
    if (!reader->installed && (strncmp(out, reader->real_root, root_bytes) != 0 ||
                               (out[root_bytes] != '/' && out[root_bytes] != '\0' && root_bytes > 1)))
        return refuse(reader, where, "the path leaves the package, whose layout is portable");
    return INLAY_OK;
}

static inlay_status check_keys(const struct reader *reader, const char *where, const json_t *object,
                               const char *const *known)
{
    const char *key;
    json_t *value;
    char text[160];

    if (!json_is_object(object))
        return refuse(reader, where, "not an object");
    json_object_foreach((json_t *)object, key, value) {
        bool found = false;

        for (const char *const *name = known; *name != NULL; name++)
            found = found || strcmp(*name, key) == 0;
        (void)snprintf(text, sizeof text, "unknown member \"%.100s\"", key);
        if (!found)
            return refuse(reader, where, text);
    }
    return INLAY_OK;
}

/* The text of a member; NULL: it is missing. *out_ok: it is missing or a text. */
static const char *member_text(const json_t *object, const char *key, bool *out_ok)
{
    const json_t *value = json_object_get(object, key);

    *out_ok = value == NULL || json_is_string(value);
    return json_string_value(value);
}

/* The object at `value`, or in the file that it names in `folder`. The caller releases it. */
static inlay_status load_object(const struct reader *reader, const char *where, const char *folder, json_t *value,
                                json_t **out)
{
    char path[PATH_MAX];
    json_error_t error;
    struct stat st;
    inlay_status status = INLAY_OK;

    *out = NULL;
    if (json_is_object(value)) {
        *out = json_incref(value);
        return INLAY_OK;
    }
    if (!json_is_string(value))
        return refuse(reader, where, "neither an object nor a path");
    status = resolve(reader, where, folder, json_string_value(value), path);
    if (status == INLAY_OK && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return refuse(reader, where, "is a folder");
    if (status == INLAY_OK && (*out = json_load_file(path, JSON_REJECT_DUPLICATES, &error)) == NULL)
        status = refuse(reader, where, error.text);
    return status;
}

static inlay_status set_text(char **field, const char *text, inlay_diag *diag)
{
    *field = strdup(text);
    return *field != NULL ? INLAY_OK : no_memory(diag, "for a package");
}

/* Reads what ONNX Runtime needs to run a variant in `folder`. */
static inlay_status read_executor(const struct reader *reader, json_t *body, const char *folder, package_variant *out)
{
    static const char external[] = "session.model_external_initializers_file_folder_path";
    json_t *value = json_object_get(json_object_get(body, "executor_info"), "ort"), *ort = NULL;
    const char *file, *text;
    char path[PATH_MAX];
    bool ok;
    inlay_status status;

    if (value == NULL)
        return set_text(&out->why, "it is made for another runtime than ONNX Runtime", reader->diag);
    INLAY_TRY(load_object(reader, out->name, folder, value, &ort));
    file = member_text(ort, "model_file", &ok);
    if (file == NULL) {
        status = ok ? set_text(&out->why, "it names no model_file", reader->diag)
                    : refuse(reader, out->name, "model_file must be a text");
        goto done;
    }
    INLAY_TRY(resolve(reader, out->name, folder, file, path));
    INLAY_TRY(set_text(&out->file, path, reader->diag));
    text = member_text(json_object_get(ort, "session_options"), external, &ok);
    if (text != NULL) {
        INLAY_TRY(resolve(reader, out->name, folder, text, path));
        INLAY_TRY(set_text(&out->external_dir, path, reader->diag));
    }
done:
    json_decref(ort);
    return status;
}

static inlay_status read_variant(const struct reader *reader, const char *component_dir, const char *name, json_t *body,
                                 package_variant *out)
{
    static const char *const keys[] = { "variant_directory",   "ep", "device", "compatibility_string", "executor_info",
                                        "additional_metadata", NULL };
    const json_t *error;
    const char *folder;
    char path[PATH_MAX];
    bool ok;
    inlay_status status;

    out->name = name;
    INLAY_TRY(check_keys(reader, name, body, keys));
    folder = member_text(body, "variant_directory", &ok);
    if (!ok)
        return refuse(reader, name, "variant_directory must be a text");
    INLAY_TRY(resolve(reader, name, component_dir, folder != NULL ? folder : name, path));
    error = json_object_get(json_object_get(json_object_get(body, "additional_metadata"), "inlay"), "error");
    if (error != NULL && (!json_is_number(error) || json_number_value(error) < 0))
        return refuse(reader, name, "additional_metadata.inlay.error is not a number of at least 0");
    out->error = error != NULL ? json_number_value(error) : -1;
    status = read_executor(reader, body, path, out);
done:
    return status;
}

static inlay_status read_component(struct reader *reader, model_package *package)
{
    static const char *const keys[] = { "component_name", "variants", "additional_metadata", NULL };
    json_t *components = json_object_get(package->manifest, "components"), *loaded = NULL;
    const char *name = json_object_iter_key(json_object_iter(components)), *variant;
    json_t *value = json_object_get(components, name), *body, *file = NULL;
    char folder[PATH_MAX], path[PATH_MAX];
    struct stat st;
    inlay_status status;

    if (json_object_size(components) != 1)
        return inlay_fail(reader->diag, INLAY_UNSUPPORTED,
                          "%.300s has %zu components: name the file of a variant of one of them", reader->root,
                          json_object_size(components));
    (void)snprintf(folder, sizeof folder, "%s", reader->root);
    if (json_is_string(value)) { /* a folder with component.json, or a file */
        INLAY_TRY(resolve(reader, name, reader->root, json_string_value(value), path));
        (void)snprintf(folder, sizeof folder, "%s", path);
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            file = json_string(COMPONENT);
        } else {
            file = json_string(strrchr(path, '/') + 1);
            *strrchr(folder, '/') = '\0';
        }
        INLAY_TRY(load_object(reader, name, folder, file, &loaded));
        (void)json_object_set(components, name, loaded); /* owns the names of variants */
        value = loaded;
    }
    INLAY_TRY(check_keys(reader, name, value, keys));
    body = json_object_get(value, "variants");
    if (!json_is_object(body))
        status = refuse(reader, name, "variants is not an object");
    package->variants = calloc(json_object_size(body) + 1, sizeof *package->variants);
    if (package->variants == NULL)
        status = no_memory(reader->diag, "for a package");
    if (status != INLAY_OK)
        goto done;
    json_object_foreach(json_object_get(value, "variants"), variant, body)
        INLAY_TRY(read_variant(reader, folder, variant, body, &package->variants[package->count++]));
done:
    json_decref(file);
    json_decref(loaded);
    return status;
}

/* "1.0", "1.4" or 1. */
static bool is_known_schema(const json_t *version)
{
    const char *text = json_string_value(version);

    return json_integer_value(version) == 1 || (text != NULL && text[0] == '1' && (text[1] == '.' || text[1] == '\0'));
}

inlay_status package_read(const char *path, model_package *out, inlay_diag *diag)
{
    static const char *const keys[] = {
        "schema_version", "package_name",  "package_version",     "description", "layout",
        "components",     "shared_assets", "additional_metadata", NULL
    };
    struct reader reader = { .root = path, .diag = diag };
    char file[PATH_MAX];
    const char *layout;
    json_error_t error;
    bool ok;
    inlay_status status;

    *out = (model_package){ .count = 0 };
    if (!join(file, path, MANIFEST) || realpath(path, reader.real_root) == NULL)
        return inlay_fail(diag, INLAY_NOT_FOUND, "%.300s: there is no such folder", path);
    out->manifest = json_load_file(file, JSON_REJECT_DUPLICATES, &error);
    if (out->manifest == NULL)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "%.300s:%d: %.150s", file, error.line, error.text);
    if (!is_known_schema(json_object_get(out->manifest, "schema_version")))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%.300s: schema_version is not 1, the one that this version reads",
                          file);
    INLAY_TRY(check_keys(&reader, "the package", out->manifest, keys));
    layout = member_text(out->manifest, "layout", &ok);
    if (!ok || (layout != NULL && strcmp(layout, "portable") != 0 && strcmp(layout, "installed") != 0))
        return refuse(&reader, "layout", "neither portable nor installed");
    reader.installed = layout != NULL && strcmp(layout, "installed") == 0;
    reader.assets = json_object_get(out->manifest, "shared_assets");
    status = read_component(&reader, out);
done:
    return status;
}

void package_deinit(model_package *package)
{
    for (uint32_t i = 0; i < package->count; i++) {
        free(package->variants[i].file);
        free(package->variants[i].external_dir);
        free(package->variants[i].why);
    }
    free(package->variants);
    json_decref(package->manifest);
    *package = (model_package){ .count = 0 };
}

bool package_is(const char *path)
{
    char file[PATH_MAX];
    json_t *manifest = join(file, path, MANIFEST) ? json_load_file(file, 0, NULL) : NULL;
    const bool is = json_object_get(manifest, "components") != NULL;

    json_decref(manifest);
    return is;
}

inlay_status package_find(const model_package *package, const char *path, const char *name, const package_variant **out,
                          inlay_diag *diag)
{
    struct strbuf names = { 0 };
    inlay_status status;

    for (uint32_t i = 0; i < package->count; i++) {
        *out = &package->variants[i];
        if (strcmp((*out)->name, name) == 0)
            return (*out)->file != NULL
                       ? INLAY_OK
                       : inlay_fail(diag, INLAY_UNSUPPORTED, "%.300s: variant '%.60s': %s", path, name, (*out)->why);
    }
    for (uint32_t i = 0; i < package->count; i++)
        strbuf_format(&names, "%s%s", i > 0 ? ", " : "", package->variants[i].name);
    status = inlay_fail(diag, INLAY_NOT_FOUND, "%.300s has no variant '%.60s'; it has: %.300s", path, name,
                        names.data != NULL ? names.data : "none");
    strbuf_deinit(&names);
    return status;
}
