#include "shared/signing.h"
#include "base/json_text.h"
#include "base/memory.h"
#include "base/output.h"
#include "base/path.h"
#include "base/strbuf.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DIGEST_BYTES = 32,
    DIGEST_TEXT = 2 * DIGEST_BYTES + 1,
    MAX_DEPTH = 64,
    MAX_SIGNATURE_BYTES = 64 << 20,
    SHOWN_BYTES = 2 * PATH_MAX + 2
};

static const char payload_type[] = "application/vnd.in-toto+json";
static const char statement_type[] = "https://in-toto.io/Statement/v1";
static const char predicate_type[] = "https://model_signing/signature/v1.0";

typedef struct signed_file {
    char *name; /* relative to the model's folder; owned */
    uint8_t digest[DIGEST_BYTES];
} signed_file;

/* A model on disk. */
struct place {
    const char *path;   /* as the caller named it */
    const char *name;   /* of a file, in its folder; NULL: the model is the folder */
    const char *hidden; /* name of the signature if it lies directly in the folder, otherwise NULL */
    int folder;         /* descriptor */
    char signature[4200];
    signed_file *files; /* [count] owned */
    uint32_t count;
};

bool signing_is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* The folder of path, "." without one. */
static void folder_of(const char *path, char out[PATH_MAX])
{
    const char *slash = strrchr(path, '/');

    (void)snprintf(out, PATH_MAX, "%.*s", slash == NULL ? 1 : (int)(slash - path) + 1, slash == NULL ? "." : path);
}

static void place_deinit(struct place *place)
{
    for (uint32_t i = 0; i < place->count; i++)
        free(place->files[i].name);
    free(place->files);
    if (place->folder >= 0)
        (void)close(place->folder);
}

static inlay_status place_init(struct place *place, const char *path, const char *signature, inlay_diag *diag)
{
    bool is_folder = signing_is_folder(path);
    char folder[PATH_MAX], other[PATH_MAX];
    struct stat of_model, of_signature;
    size_t bytes = strlen(path);

    *place = (struct place){ .path = path, .name = is_folder ? NULL : path_name(path), .folder = -1 };
    if (gnutls_global_init() != GNUTLS_E_SUCCESS)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%.300s: signatures need libgnutls.so.30, which cannot be loaded",
                          path);
    if (bytes >= PATH_MAX)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the path of the model has %zu bytes; at most %d are allowed",
                          bytes, PATH_MAX - 1);
    if (is_folder)
        (void)snprintf(folder, sizeof folder, "%s", path);
    else
        folder_of(path, folder);
    if (signature != NULL)
        (void)snprintf(place->signature, sizeof place->signature, "%s", signature);
    else if (is_folder)
        (void)snprintf(place->signature, sizeof place->signature, "%s%smodel.sig", path,
                       path[bytes - 1] == '/' ? "" : "/");
    else
        (void)snprintf(place->signature, sizeof place->signature, "%s.sig", path);
    place->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place->folder < 0 || fstat(place->folder, &of_model) != 0)
        return inlay_fail(diag, errno == ENOENT ? INLAY_NOT_FOUND : INLAY_IO_ERROR, "%.300s: %s", folder,
                          strerror(errno));
    folder_of(place->signature, other);
    if (stat(other, &of_signature) == 0 && of_signature.st_dev == of_model.st_dev &&
        of_signature.st_ino == of_model.st_ino)
        place->hidden = path_name(place->signature);
    return INLAY_OK;
}

/* The path of a file of the model, for messages. */
static const char *shown(const struct place *place, const char *name, char out[SHOWN_BYTES])
{
    size_t bytes = strlen(place->path);

    if (place->name != NULL)
        bytes = (size_t)(path_name(place->path) - place->path);
    (void)snprintf(out, SHOWN_BYTES, "%.*s%s%s", (int)bytes, place->path,
                   bytes == 0 || place->path[bytes - 1] == '/' ? "" : "/", name);
    return out;
}

static inlay_status add_file(struct place *place, const char *name, inlay_diag *diag)
{
    signed_file *file;

    if (!LIST_GROW(place->files, place->count))
        return no_memory(diag, "for the list of files");
    file = &place->files[place->count];
    *file = (signed_file){ .name = strdup(name) };
    if (file->name == NULL)
        return no_memory(diag, "for the list of files");
    place->count++;
    return INLAY_OK;
}

static int by_name(const void *a, const void *b)
{
    const signed_file *first = a, *second = b;

    return strcmp(first->name, second->name);
}

static void sort_files(struct place *place)
{
    if (place->count > 0)
        qsort(place->files, place->count, sizeof *place->files, by_name);
}

/* Lists the files below the folder `fd`, which it closes. prefix: what precedes the names of the files, "" or a path
 * that ends with a slash. */
static inlay_status list_folder(struct place *place, int fd, const char *prefix, uint32_t depth, inlay_diag *diag)
{
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    char name[PATH_MAX], path[SHOWN_BYTES];
    inlay_status status = INLAY_OK;
    struct stat about;

    if (folder == NULL) {
        status = inlay_fail(diag, INLAY_IO_ERROR, "%.300s: %s", shown(place, prefix, path), strerror(errno));
        if (fd >= 0)
            (void)close(fd);
        return status;
    }
    for (struct dirent *entry; status == INLAY_OK && (entry = readdir(folder)) != NULL;) {
        int bytes = snprintf(name, sizeof name, "%s%s", prefix, entry->d_name);

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            (depth == 0 && place->hidden != NULL && strcmp(entry->d_name, place->hidden) == 0))
            continue;
        if (bytes >= PATH_MAX - 1 || depth >= MAX_DEPTH)
            status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%.300s: too many folders inside each other",
                                shown(place, prefix, path));
        else if (fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0)
            status = inlay_fail(diag, INLAY_IO_ERROR, "%.300s: %s", shown(place, name, path), strerror(errno));
        else if (S_ISDIR(about.st_mode)) {
            name[bytes] = '/';
            name[bytes + 1] = '\0';
            status = list_folder(place,
                                 openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                                 name, depth + 1, diag);
        } else if (S_ISREG(about.st_mode))
            status = add_file(place, name, diag);
        else
            status = inlay_fail(diag, INLAY_RESULTS_DIFFER, "%.300s: is %s; replace it by a regular file, or remove it",
                                shown(place, name, path), S_ISLNK(about.st_mode) ? "a symbolic link" : "a device");
    }
    (void)closedir(folder);
    return status;
}

static inlay_status list_model_folder(struct place *place, inlay_diag *diag)
{
    inlay_status status =
        list_folder(place, openat(place->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "", 0, diag);

    sort_files(place);
    return status;
}

/* Opens a file below the folder without following links; -1 with errno: EINVAL = a name that could leave the folder. */
static int open_inside(int folder, const char *name)
{
    char part[NAME_MAX + 1];
    int fd = dup(folder);

    while (fd >= 0) {
        size_t bytes = strcspn(name, "/");
        bool last = name[bytes] == '\0';
        int next = -1, failure;

        errno = EINVAL;
        if (bytes > 0 && bytes <= NAME_MAX) {
            (void)snprintf(part, sizeof part, "%.*s", (int)bytes, name);
            if (strcmp(part, ".") != 0 && strcmp(part, "..") != 0)
                next = openat(fd, part, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (last ? 0 : O_DIRECTORY));
        }
        failure = errno;
        (void)close(fd);
        errno = failure;
        fd = next;
        if (last)
            break;
        name += bytes + 1;
    }
    return fd;
}

static inlay_status hash_file(const struct place *place, signed_file *file, uint64_t *bytes, inlay_diag *diag)
{
    static const char advice[] = "restore the file that was signed, or sign the model again";
    char path[SHOWN_BYTES], *block = malloc(1 << 16);
    int fd = open_inside(place->folder, file->name);
    inlay_status status = INLAY_OK;
    gnutls_hash_hd_t hash = NULL;
    struct stat about;
    ssize_t got;

    (void)shown(place, file->name, path);
    if (fd < 0) {
        status = inlay_fail(diag, errno == ENOENT ? INLAY_NOT_FOUND : INLAY_RESULTS_DIFFER, "%.300s: %s; %s", path,
                            errno == ELOOP || errno == ENOTDIR ? "is a symbolic link, or its path contains one"
                            : errno == ENOENT                  ? "is missing"
                                                               : strerror(errno),
                            advice);
        goto done;
    }
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        status = inlay_fail(diag, INLAY_RESULTS_DIFFER, "%.300s: is not a regular file; %s", path, advice);
        goto done;
    }
    output_note_read(fd);
    if (block == NULL || gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) != GNUTLS_E_SUCCESS) {
        hash = NULL;
        status = no_memory(diag, "to hash '%.300s'", path);
        goto done;
    }
    while ((got = read(fd, block, 1 << 16)) > 0) {
        (void)gnutls_hash(hash, block, (size_t)got);
        *bytes += (uint64_t)got;
    }
    if (got < 0)
        status = inlay_fail(diag, INLAY_IO_ERROR, "%.300s: %s", path, strerror(errno));
done:
    if (hash != NULL)
        gnutls_hash_deinit(hash, file->digest);
    if (fd >= 0)
        (void)close(fd);
    free(block);
    return status;
}

static void to_hex(const uint8_t digest[DIGEST_BYTES], char text[DIGEST_TEXT])
{
    for (uint32_t i = 0; i < DIGEST_BYTES; i++)
        (void)snprintf(text + (size_t)2 * i, 3, "%02x", digest[i]);
}

/* The digest of the whole model: that of the digests of its files in the order of their names. */
static bool hash_of_files(const struct place *place, char text[DIGEST_TEXT])
{
    uint8_t digest[DIGEST_BYTES];
    gnutls_hash_hd_t hash;

    if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) != GNUTLS_E_SUCCESS)
        return false;
    for (uint32_t i = 0; i < place->count; i++)
        (void)gnutls_hash(hash, place->files[i].digest, DIGEST_BYTES);
    gnutls_hash_deinit(hash, digest);
    to_hex(digest, text);
    return true;
}

/* Reads a regular file, a key or a signature. *out is owned by the caller: free(out->data). */
static inlay_status read_file(const char *path, gnutls_datum_t *out, inlay_diag *diag)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    inlay_status status = INLAY_OK;
    struct stat about;

    *out = (gnutls_datum_t){ NULL, 0 };
    if (fd < 0 || fstat(fd, &about) != 0)
        status =
            inlay_fail(diag, errno == ENOENT ? INLAY_NOT_FOUND : INLAY_IO_ERROR, "%.300s: %s", path, strerror(errno));
    else if (!S_ISREG(about.st_mode) || about.st_size > MAX_SIGNATURE_BYTES)
        status = inlay_fail(diag, INLAY_IO_ERROR, "%.300s: is not a regular file of at most 64 MiB", path);
    else if ((out->data = malloc((size_t)about.st_size + 1)) == NULL)
        status = no_memory(diag, "to read '%.300s'", path);
    else
        output_note_read(fd);
    for (ssize_t got = 1; status == INLAY_OK && got != 0 && out->size < (unsigned)about.st_size;) {
        got = read(fd, out->data + out->size, (size_t)about.st_size - out->size);
        if (got < 0)
            status = inlay_fail(diag, INLAY_IO_ERROR, "%.300s: %s", path, strerror(errno));
        else
            out->size += (unsigned)got;
    }
    if (fd >= 0)
        (void)close(fd);
    return status;
}

/* What is signed: DSSE's pre-authentication encoding of the statement. */
static void add_signed_text(struct strbuf *text, const void *statement, size_t bytes)
{
    strbuf_format(text, "DSSEv1 %zu %s %zu ", strlen(payload_type), payload_type, bytes);
    strbuf_add(text, statement, bytes);
}

static json_t *make_statement(const struct place *place)
{
    char digest[DIGEST_TEXT], name[PATH_MAX];
    json_t *resources = json_array();
    size_t bytes;

    for (uint32_t i = 0; i < place->count; i++) {
        to_hex(place->files[i].digest, digest);
        (void)json_array_append_new(resources, json_pack("{s:s, s:s, s:s}", "name", place->files[i].name, "algorithm",
                                                         "sha256", "digest", digest));
    }
    if (!hash_of_files(place, digest)) {
        json_decref(resources);
        return NULL;
    }
    /* The subject's name is a remark: a model may be served under another name. */
    (void)snprintf(name, sizeof name, "%s", place->path);
    for (bytes = strlen(name); bytes > 1 && name[bytes - 1] == '/'; bytes--)
        name[bytes - 1] = '\0';
    return json_pack("{s:s, s:[{s:s, s:{s:s}}], s:s, s:{s:{s:s, s:s, s:b, s:[s*]}, s:o}}", "_type", statement_type,
                     "subject", "name", path_name(name), "digest", "sha256", digest, "predicateType", predicate_type,
                     "predicate", "serialization", "method", "files", "hash_type", "sha256", "allow_symlinks", 0,
                     "ignore_paths", place->hidden, "resources", resources);
}

static inlay_status sign_text(const char *key_path, const struct strbuf *text, gnutls_datum_t *out_signature,
                              char out_id[DIGEST_TEXT], inlay_diag *diag)
{
    gnutls_datum_t pem, data = { (unsigned char *)text->data, (unsigned)text->size };
    gnutls_privkey_t key = NULL;
    gnutls_pubkey_t public_key = NULL;
    inlay_status status = read_file(key_path, &pem, diag);
    uint8_t id[DIGEST_BYTES];
    size_t id_bytes = sizeof id;

    if (status != INLAY_OK)
        goto done;
    if (gnutls_privkey_init(&key) != GNUTLS_E_SUCCESS || gnutls_pubkey_init(&public_key) != GNUTLS_E_SUCCESS) {
        status = no_memory(diag, "for the key");
        goto done;
    }
    if (gnutls_privkey_import_x509_raw(key, &pem, GNUTLS_X509_FMT_PEM, NULL, 0) != GNUTLS_E_SUCCESS ||
        gnutls_privkey_get_pk_algorithm(key, NULL) != GNUTLS_PK_EDDSA_ED25519) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "%.300s: is not a private Ed25519 key in PEM; make one with: openssl genpkey -algorithm "
                            "ed25519 -out KEY.pem",
                            key_path);
        goto done;
    }
    if (gnutls_privkey_sign_data2(key, GNUTLS_SIGN_EDDSA_ED25519, 0, &data, out_signature) != GNUTLS_E_SUCCESS ||
        gnutls_pubkey_import_privkey(public_key, key, 0, 0) != GNUTLS_E_SUCCESS ||
        gnutls_pubkey_get_key_id(public_key, GNUTLS_KEYID_USE_SHA256, id, &id_bytes) != GNUTLS_E_SUCCESS)
        status = inlay_fail(diag, INLAY_INTERNAL, "GnuTLS cannot sign with '%.300s'", key_path);
    else
        to_hex(id, out_id);
done:
    if (public_key != NULL)
        gnutls_pubkey_deinit(public_key);
    if (key != NULL)
        gnutls_privkey_deinit(key);
    free(pem.data);
    return status;
}

static inlay_status write_envelope(const struct place *place, const char *key, inlay_diag *diag)
{
    gnutls_datum_t signature = { NULL, 0 }, payload_text = { NULL, 0 }, signature_text = { NULL, 0 }, payload;
    json_t *statement = make_statement(place), *envelope = NULL;
    char *statement_text = statement != NULL ? json_dumps(statement, JSON_COMPACT) : NULL, *envelope_text = NULL;
    char key_id[DIGEST_TEXT];
    struct strbuf text = { 0 };
    output_file output;
    inlay_status status;

    if (statement_text == NULL) {
        status = no_memory(diag, "for the signature");
        goto done;
    }
    payload = (gnutls_datum_t){ (unsigned char *)statement_text, (unsigned)strlen(statement_text) };
    add_signed_text(&text, payload.data, payload.size);
    status = text.failed ? no_memory(diag, "for the signature") : sign_text(key, &text, &signature, key_id, diag);
    if (status != INLAY_OK)
        goto done;
    if (gnutls_base64_encode2(&payload, &payload_text) == GNUTLS_E_SUCCESS &&
        gnutls_base64_encode2(&signature, &signature_text) == GNUTLS_E_SUCCESS)
        envelope = json_pack("{s:s%, s:s, s:[{s:s, s:s%}]}", "payload", (char *)payload_text.data,
                             (size_t)payload_text.size, "payloadType", payload_type, "signatures", "keyid", key_id,
                             "sig", (char *)signature_text.data, (size_t)signature_text.size);
    envelope_text = envelope != NULL ? json_dumps(envelope, JSON_INDENT(1)) : NULL;
    if (envelope_text == NULL) {
        status = no_memory(diag, "for the signature");
        goto done;
    }
    status = output_open(&output, place->signature, diag);
    if (status != INLAY_OK)
        goto done;
    if (output_write(output.fd, envelope_text, strlen(envelope_text)) && output_write(output.fd, "\n", 1))
        status = output_commit(&output, NULL, diag);
    else
        status = output_failed(&output, diag);
    output_drop(&output);
done:
    gnutls_free(signature.data);
    gnutls_free(payload_text.data);
    gnutls_free(signature_text.data);
    strbuf_deinit(&text);
    free(statement_text);
    free(envelope_text);
    json_decref(statement);
    json_decref(envelope);
    return status;
}

/* Adds a location of external data without empty parts and ".". */
static inlay_status add_location(struct place *place, const char *location, inlay_diag *diag)
{
    char name[PATH_MAX] = "";
    size_t used = 0;

    for (const char *at = location; *at != '\0';) {
        size_t bytes = strcspn(at, "/");

        if (bytes > 0 && !(bytes == 1 && *at == '.') && used + bytes + 2 < sizeof name)
            used += (size_t)snprintf(name + used, sizeof name - used, "%s%.*s", used > 0 ? "/" : "", (int)bytes, at);
        at += bytes + (at[bytes] == '/');
    }
    for (uint32_t i = 0; i < place->count; i++)
        if (strcmp(place->files[i].name, name) == 0)
            return INLAY_OK;
    return add_file(place, name, diag);
}

inlay_status signing_write(const char *path, const char *const *others, uint32_t other_count, const char *key,
                           const char *output, signing_report *out_report, inlay_diag *diag)
{
    struct place place;
    inlay_status status = place_init(&place, path, output, diag);

    *out_report = (signing_report){ 0 };
    if (status == INLAY_OK && place.name == NULL)
        status = list_model_folder(&place, diag);
    else if (status == INLAY_OK)
        status = add_file(&place, place.name, diag);
    for (uint32_t i = 0; status == INLAY_OK && i < other_count; i++)
        status = add_location(&place, others[i], diag);
    sort_files(&place);
    if (status == INLAY_OK && place.count == 0)
        status = inlay_fail(diag, INLAY_NOT_FOUND, "%.300s: the folder has no files to sign", path);
    for (uint32_t i = 0; status == INLAY_OK && i < place.count; i++)
        status = hash_file(&place, &place.files[i], &out_report->bytes, diag);
    if (status == INLAY_OK)
        status = write_envelope(&place, key, diag);
    out_report->file_count = place.count;
    memcpy(out_report->path, place.signature, sizeof out_report->path);
    place_deinit(&place);
    return status;
}

static inlay_status damaged(const struct place *place, const char *what, inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_RESULTS_DIFFER, "%.300s: is not a signature of a model: %.200s; sign the model again",
                      place->signature, what);
}

/* Whether the public key in the file has made one of the signatures of the envelope. */
static inlay_status try_key(const char *path, const json_t *signatures, const struct strbuf *text, bool *out_valid,
                            inlay_diag *diag)
{
    gnutls_datum_t pem, data = { (unsigned char *)text->data, (unsigned)text->size };
    gnutls_pubkey_t key = NULL;
    inlay_status status = read_file(path, &pem, diag);

    *out_valid = false;
    if (status == INLAY_OK && gnutls_pubkey_init(&key) != GNUTLS_E_SUCCESS)
        status = no_memory(diag, "for the key");
    if (status == INLAY_OK && (gnutls_pubkey_import(key, &pem, GNUTLS_X509_FMT_PEM) != GNUTLS_E_SUCCESS ||
                               gnutls_pubkey_get_pk_algorithm(key, NULL) != GNUTLS_PK_EDDSA_ED25519))
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "%.300s: is not a public Ed25519 key in PEM; make it with: openssl pkey -in KEY.pem "
                            "-pubout -out PUB.pem",
                            path);
    for (size_t i = 0; status == INLAY_OK && !*out_valid && i < json_array_size(signatures); i++) {
        const char *encoded = json_string_value(json_object_get(json_array_get(signatures, i), "sig"));
        gnutls_datum_t base64 = { (unsigned char *)(uintptr_t)encoded,
                                  encoded != NULL ? (unsigned)strlen(encoded) : 0 };
        gnutls_datum_t signature = { NULL, 0 };

        if (encoded != NULL && gnutls_base64_decode2(&base64, &signature) == GNUTLS_E_SUCCESS)
            *out_valid = gnutls_pubkey_verify_data2(key, GNUTLS_SIGN_EDDSA_ED25519, 0, &data, &signature) >= 0;
        gnutls_free(signature.data);
    }
    if (key != NULL)
        gnutls_pubkey_deinit(key);
    free(pem.data);
    return status;
}

/* Reads the envelope and checks that one of the keys signed it; *out_statement is the caller's. */
static inlay_status open_envelope(const struct place *place, const char *keys, json_t **out_statement, inlay_diag *diag)
{
    gnutls_datum_t file, payload = { NULL, 0 }, base64;
    json_t *envelope = NULL;
    const char *encoded, *type;
    struct strbuf text = { 0 };
    json_error_t error;
    bool valid = false;
    inlay_status status;

    *out_statement = NULL;
    status = read_file(place->signature, &file, diag);
    if (status == INLAY_NOT_FOUND)
        status =
            inlay_fail(diag, status, "%.300s: is not signed: there is no %.300s; run: inlay sign %.300s --key KEY.pem",
                       place->path, place->signature, place->path);
    if (status != INLAY_OK)
        goto done;
    envelope = json_loadb((const char *)file.data, file.size, JSON_REJECT_DUPLICATES, &error);
    encoded = json_string_value(json_object_get(envelope, "payload"));
    type = json_string_value(json_object_get(envelope, "payloadType"));
    if (encoded == NULL || type == NULL || strcmp(type, payload_type) != 0) {
        status = damaged(place, envelope == NULL ? error.text : "it has no in-toto statement", diag);
        goto done;
    }
    base64 = (gnutls_datum_t){ (unsigned char *)(uintptr_t)encoded, (unsigned)strlen(encoded) };
    if (gnutls_base64_decode2(&base64, &payload) != GNUTLS_E_SUCCESS) {
        status = damaged(place, "its statement is not in base64", diag);
        goto done;
    }
    add_signed_text(&text, payload.data, payload.size);
    if (text.failed) {
        status = no_memory(diag, "to read '%.300s'", place->signature);
        goto done;
    }
    for (const char *at = keys; status == INLAY_OK && !valid && *at != '\0';) {
        size_t bytes = strcspn(at, ",");
        char path[PATH_MAX];

        (void)snprintf(path, sizeof path, "%.*s", (int)bytes, at);
        if (bytes > 0)
            status = try_key(path, json_object_get(envelope, "signatures"), &text, &valid, diag);
        at += bytes + (at[bytes] == ',');
    }
    if (status == INLAY_OK && !valid)
        status =
            inlay_fail(diag, INLAY_RESULTS_DIFFER,
                       "%.300s: was not made by %.300s; sign the model with that key, or name the signer's public key",
                       place->signature, keys);
    if (status != INLAY_OK)
        goto done;
    *out_statement = json_loadb((const char *)payload.data, payload.size, JSON_REJECT_DUPLICATES, &error);
    if (*out_statement == NULL)
        status = damaged(place, error.text, diag);
done:
    json_decref(envelope);
    gnutls_free(payload.data);
    strbuf_deinit(&text);
    free(file.data);
    return status;
}

static const json_t *find_resource(const json_t *resources, const char *name)
{
    for (size_t i = 0; i < json_array_size(resources); i++)
        if (strcmp(json_text_of(json_array_get(resources, i), "name"), name) == 0)
            return json_array_get(resources, i);
    return NULL;
}

/* Compares the model with the statement; fills place->files. */
static inlay_status check_files(struct place *place, const json_t *statement, uint64_t *bytes, inlay_diag *diag)
{
    const json_t *predicate = json_object_get(statement, "predicate"),
                 *resources = json_object_get(predicate, "resources"),
                 *subject = json_object_get(json_array_get(json_object_get(statement, "subject"), 0), "digest");
    char digest[DIGEST_TEXT], path[SHOWN_BYTES];
    inlay_status status = INLAY_OK;

    if (strcmp(json_text_of(statement, "_type"), statement_type) != 0 ||
        strcmp(json_text_of(statement, "predicateType"), predicate_type) != 0 || json_array_size(resources) == 0 ||
        strcmp(json_text_of(json_object_get(predicate, "serialization"), "method"), "files") != 0)
        return damaged(place, "its statement is not that of OpenSSF's model signing, version 1.0, by files", diag);
    if (place->name == NULL)
        status = list_model_folder(place, diag);
    else
        status = add_file(place, place->name, diag);
    /* Files that are not listed are found first: reading all files takes longer. */
    for (uint32_t i = 0; status == INLAY_OK && i < place->count; i++)
        if (find_resource(resources, place->files[i].name) == NULL)
            status = inlay_fail(diag, INLAY_RESULTS_DIFFER,
                                "%.300s: is not in the signature %.300s; remove the file, or sign the model again",
                                shown(place, place->files[i].name, path), place->signature);
    for (size_t i = 0; status == INLAY_OK && i < json_array_size(resources); i++)
        status = add_location(place, json_text_of(json_array_get(resources, i), "name"), diag);
    sort_files(place);
    for (uint32_t i = 0; status == INLAY_OK && i < place->count; i++) {
        const json_t *resource = find_resource(resources, place->files[i].name);

        if (resource == NULL || strcmp(json_text_of(resource, "algorithm"), "sha256") != 0)
            return damaged(place, "a file has no plain name, or no digest by SHA-256", diag);
        status = hash_file(place, &place->files[i], bytes, diag);
        if (status != INLAY_OK)
            return status;
        to_hex(place->files[i].digest, digest);
        if (strcmp(json_text_of(resource, "digest"), digest) != 0)
            return inlay_fail(diag, INLAY_RESULTS_DIFFER,
                              "%.300s: has changed since it was signed; restore the file that was signed, or sign the "
                              "model again",
                              shown(place, place->files[i].name, path));
    }
    if (status == INLAY_OK && !hash_of_files(place, digest))
        status = no_memory(diag, "for a digest");
    if (status == INLAY_OK && strcmp(json_text_of(subject, "sha256"), digest) != 0)
        status = damaged(place, "the digest of the whole model is not that of its files", diag);
    return status;
}

inlay_status signing_check(const char *path, const char *signature, const char *keys, signing_report *out_report,
                           inlay_diag *diag)
{
    json_t *statement = NULL;
    struct place place;
    inlay_status status = place_init(&place, path, signature, diag);

    *out_report = (signing_report){ 0 };
    if (status == INLAY_OK && place.name != NULL && access(path, F_OK) != 0)
        status =
            inlay_fail(diag, errno == ENOENT ? INLAY_NOT_FOUND : INLAY_IO_ERROR, "%.300s: %s", path, strerror(errno));
    if (status == INLAY_OK)
        status = open_envelope(&place, keys, &statement, diag);
    if (status == INLAY_OK)
        status = check_files(&place, statement, &out_report->bytes, diag);
    out_report->file_count = place.count;
    memcpy(out_report->path, place.signature, sizeof out_report->path);
    json_decref(statement);
    place_deinit(&place);
    return status;
}
