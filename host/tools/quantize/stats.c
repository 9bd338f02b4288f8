#include "quantize/stats.h"
#include "base/hash.h"
#include "base/output.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VERSION = 1 };

struct stats {
    const char *path;
    json_t *root;
    bool changed;
    time_t saved;
};

/* ------------------------------------------------------------------ whose they are */

static inlay_status hash_file(const char *path, uint64_t *io_hash, inlay_diag *diag)
{
    static char block[1 << 16];
    FILE *file = fopen(path, "rb");
    size_t got;

    if (file == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%.200s: %s", path, strerror(errno));
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        *io_hash = hash_bytes(block, got, *io_hash);
    (void)fclose(file);
    return INLAY_OK;
}

static inlay_status hash_sample(const struct samples *set, uint32_t i, uint64_t *io_hash, inlay_diag *diag)
{
    inlay_value **values = NULL;
    inlay_status status = samples_load(set, i, &values, diag);

    for (uint32_t k = 0; status == INLAY_OK && k < inlay_session_input_count(set->of); k++) {
        inlay_tensor_view v;

        if (values[k] != NULL && judge_view(values[k], &v) && v.dtype != INLAY_STRING && v.bytes > 0)
            *io_hash = hash_bytes(v.data, (size_t)v.bytes, *io_hash);
    }
    samples_release(set, values);
    return status;
}

static inlay_status make_key(const char *model, const struct samples *set, agree_metric metric, char key[80],
                             inlay_diag *diag)
{
    uint64_t hash = VERSION;
    inlay_status status;

    INLAY_TRY(hash_file(model, &hash, diag));
    if (set->count > 0) {
        INLAY_TRY(hash_sample(set, 0, &hash, diag));
        INLAY_TRY(hash_sample(set, set->count - 1, &hash, diag));
    }
    (void)snprintf(key, 80, "%016" PRIx64 " %u %s", hash, set->count, agree_metric_name(metric));
done:
    return status;
}

/* ------------------------------------------------------------------ the file */

static json_t *new_root(const char *key)
{
    return json_pack("{s:i, s:s, s:{}, s:{}, s:{}}", "version", VERSION, "of", key, "verdicts", "ranges", "gains");
}

inlay_status stats_open(const char *path, const char *model, const struct samples *set, agree_metric metric,
                        struct stats **out, inlay_diag *diag)
{
    struct stats *s;
    json_error_t error;
    char key[80];
    const char *of;
    inlay_status status;

    *out = NULL;
    if (path == NULL)
        return INLAY_OK;
    status = make_key(model, set, metric, key, diag);
    if (status != INLAY_OK)
        return status;
    s = calloc(1, sizeof *s);
    if (s == NULL)
        return no_memory(diag, "for %.200s", path);
    s->path = path;
    s->root = json_load_file(path, 0, &error);
    of = json_string_value(json_object_get(s->root, "of"));
    if (s->root == NULL && json_error_code(&error) == json_error_cannot_open_file) {
        s->root = new_root(key);
    } else if (s->root == NULL || of == NULL || !json_is_object(json_object_get(s->root, "verdicts")) ||
               !json_is_object(json_object_get(s->root, "ranges")) ||
               !json_is_object(json_object_get(s->root, "gains"))) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "--stats %.200s: not what inlay quantize wrote; remove it, or "
                            "name another file",
                            path);
    } else if (strcmp(of, key) != 0) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "--stats %.200s: of another model, other samples or another "
                            "metric; remove it, or name another file",
                            path);
    }
    if (status == INLAY_OK && s->root == NULL)
        status = no_memory(diag, "for %.200s", path);
    if (status == INLAY_OK)
        *out = s;
    else
        stats_close(s);
    return status;
}

void stats_close(struct stats *s)
{
    if (s != NULL)
        json_decref(s->root);
    free(s);
}

inlay_status stats_save(struct stats *s, bool now, inlay_diag *diag)
{
    output_file file = { .fd = -1 };
    char *text;
    inlay_status status;

    if (s == NULL || !s->changed || (!now && time(NULL) <= s->saved))
        return INLAY_OK;
    text = json_dumps(s->root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (text == NULL)
        return no_memory(diag, "for %.200s", s->path);
    INLAY_TRY(output_open(&file, s->path, diag));
    if (output_write(file.fd, text, strlen(text)))
        status = output_commit(&file, NULL, diag);
    else
        status = output_failed(&file, diag);
    INLAY_TRY(status);
    s->changed = false;
    s->saved = time(NULL);
done:
    output_drop(&file);
    free(text);
    return status;
}

/* ------------------------------------------------------------------ verdicts */

/* JSON has no infinities and no NaN: such a verdict is not kept. */
void stats_add_verdict(struct stats *s, uint64_t digest, const struct verdict *v)
{
    char name[20];
    json_t *item;

    if (s == NULL)
        return;
    (void)snprintf(name, sizeof name, "%016" PRIx64, digest);
    item = json_pack("{s:s, s:f, s:f, s:f, s:f, s:s, s:i}", "metric", agree_metric_name(v->metric), "score",
                     v->score.value, "low", v->score.low, "high", v->score.high, "error", v->error, "output", v->output,
                     "samples", (int)v->samples);
    if (item != NULL && json_object_set_new(json_object_get(s->root, "verdicts"), name, item) == 0)
        s->changed = true;
}

bool stats_verdict(const struct stats *s, uint64_t digest, struct verdict *out)
{
    char name[20];
    const char *metric, *output;
    json_t *item;
    int count;

    if (s == NULL)
        return false;
    (void)snprintf(name, sizeof name, "%016" PRIx64, digest);
    item = json_object_get(json_object_get(s->root, "verdicts"), name);
    *out = (struct verdict){ 0 };
    if (item == NULL || json_unpack(item, "{s:s, s:F, s:F, s:F, s:F, s:s, s:i}", "metric", &metric, "score",
                                    &out->score.value, "low", &out->score.low, "high", &out->score.high, "error",
                                    &out->error, "output", &output, "samples", &count) != 0)
        return false;
    out->metric = agree_metric_find(metric);
    out->samples = (uint32_t)count;
    (void)snprintf(out->output, sizeof out->output, "%s", output);
    return out->metric < AGREE_METRIC_COUNT;
}

/* ------------------------------------------------------------------ gains */

bool stats_gains(const struct stats *s, const char *const *names, uint32_t count, double *out)
{
    for (uint32_t i = 0; s != NULL && i < count; i++) {
        const json_t *ns = json_object_get(json_object_get(s->root, "gains"), names[i]);

        if (ns == NULL)
            return false;
        out[i] = json_number_value(ns);
    }
    return s != NULL;
}

void stats_add_gain(struct stats *s, const char *name, double ns)
{
    if (s != NULL && json_object_set_new(json_object_get(s->root, "gains"), name, json_real(ns)) == 0)
        s->changed = true;
}

/* ------------------------------------------------------------------ ranges */

void stats_add_ranges(struct stats *s, const struct calibration *c)
{
    json_t *all = s == NULL ? NULL : json_object_get(s->root, "ranges");

    for (uint32_t i = 0; s != NULL && i < c->count; i++) {
        const tensor_range *r = &c->ranges[i];
        json_t *bins = json_array(), *means = json_array(), *item;

        for (int k = 0; k < CALIBRATE_BINS; k++)
            (void)json_array_append_new(bins, json_integer((json_int_t)r->bins[k]));
        for (int64_t k = 0; k < r->channels; k++)
            (void)json_array_append_new(means, json_real(r->means[k]));
        item =
            r->low <= r->high
                ? json_pack("{s:f, s:f, s:I, s:I, s:o, s:o}", "low", (double)r->low, "high", (double)r->high, "broken",
                            (json_int_t)r->broken, "count", (json_int_t)r->count, "bins", bins, "means", means)
                : json_pack("{s:I, s:o, s:o}", "broken", (json_int_t)r->broken, "bins", bins, "means", means);
        if (item != NULL && json_object_set_new(all, r->name, item) == 0)
            s->changed = true;
    }
}

static bool read_range(const json_t *item, struct calibration *c, tensor_range *r)
{
    const json_t *bins = json_object_get(item, "bins"), *means = json_object_get(item, "means");

    if (item == NULL || json_array_size(bins) != CALIBRATE_BINS)
        return false;
    if (json_object_get(item, "low") != NULL) {
        r->low = (float)json_number_value(json_object_get(item, "low"));
        r->high = (float)json_number_value(json_object_get(item, "high"));
    }
    r->broken = (uint64_t)json_integer_value(json_object_get(item, "broken"));
    r->count = (uint64_t)json_integer_value(json_object_get(item, "count"));
    r->bins = arena_array(&c->a, CALIBRATE_BINS, sizeof *r->bins);
    r->channels = (int64_t)json_array_size(means);
    r->means = r->channels == 0 ? NULL : arena_array(&c->a, (size_t)r->channels, sizeof *r->means);
    if (r->bins == NULL || (r->channels > 0 && r->means == NULL))
        return false;
    for (size_t k = 0; k < CALIBRATE_BINS; k++)
        r->bins[k] = (uint64_t)json_integer_value(json_array_get(bins, k));
    for (int64_t k = 0; k < r->channels; k++)
        r->means[k] = json_number_value(json_array_get(means, (size_t)k));
    return true;
}

bool stats_ranges(const struct stats *s, const calibrate_value *values, uint32_t count, struct calibration *out)
{
    const json_t *all = s == NULL ? NULL : json_object_get(s->root, "ranges");
    bool ok;

    *out = (struct calibration){ 0 };
    if (s == NULL || count == 0)
        return false;
    out->ranges = arena_array(&out->a, count, sizeof *out->ranges);
    ok = out->ranges != NULL;
    for (uint32_t i = 0; ok && i < count; i++) {
        out->ranges[i] =
            (tensor_range){ .name = arena_string(&out->a, values[i].name), .low = INFINITY, .high = -INFINITY };
        ok = out->ranges[i].name != NULL && read_range(json_object_get(all, values[i].name), out, &out->ranges[i]);
    }
    out->count = ok ? count : 0;
    if (!ok)
        calibration_end(out);
    return ok;
}
