#include "partition/cost/cost_profile.h"
#include "base/memory.h"
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FORMAT = 6, MAX_FILE = 8 << 20, MAX_ITEMS = 20000 };
static const char file_name[] = "machine.json";

void profile_deinit(cost_profile *profile)
{
    arena_deinit(&profile->arena);
    *profile = (cost_profile){ .provider_count = 0 };
}

const profile_provider *profile_find(const cost_profile *profile, uint64_t identity)
{
    for (uint32_t i = 0; i < profile->provider_count; i++)
        if (profile->providers[i].identity == identity)
            return &profile->providers[i];
    return NULL;
}

/* Copies the value of "key : value" in a line of /proc/cpuinfo to text, unless text is set already. */
static void copy_field(const char *line, const char *key, char *text, size_t bytes)
{
    size_t length = strlen(key);
    const char *colon = strchr(line, ':');

    if (text[0] != '\0' || strncmp(line, key, length) != 0 || (line[length] != '\t' && line[length] != ' ') ||
        colon == NULL)
        return;
    colon += strspn(colon, ": \t");
    (void)snprintf(text, bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
}

static char cpu_name[160], assumed_cpu[160];
static uint32_t assumed_threads;
static pthread_once_t cpu_once = PTHREAD_ONCE_INIT;

static void find_cpu(void)
{
    char line[256], name[96] = "", family[16] = "", model[16] = "", part[32] = "";
    FILE *file = fopen("/proc/cpuinfo", "re");

    while (file != NULL && (name[0] == '\0' || family[0] == '\0' || model[0] == '\0') &&
           fgets(line, sizeof line, file) != NULL) { /* the file is long on machines with many CPUs */
        copy_field(line, "model name", name, sizeof name);
        copy_field(line, "cpu family", family, sizeof family);
        copy_field(line, "model", model, sizeof model);
        copy_field(line, "CPU part", part, sizeof part); /* ARM has no model names */
    }
    if (file != NULL)
        (void)fclose(file);
    (void)snprintf(cpu_name, sizeof cpu_name, "%s (family %s, model %s)",
                   name[0] != '\0'   ? name
                   : part[0] != '\0' ? part
                                     : "unknown",
                   family[0] != '\0' ? family : "?", model[0] != '\0' ? model : "?");
}

void profile_cpu(char *text, size_t bytes)
{
    (void)pthread_once(&cpu_once, find_cpu);
    (void)snprintf(text, bytes, "%s", profile_is_assumed() ? assumed_cpu : cpu_name);
}

void profile_assume(const char *cpu, uint32_t threads)
{
    (void)snprintf(assumed_cpu, sizeof assumed_cpu, "%s", cpu);
    assumed_threads = threads;
}

bool profile_is_assumed(void)
{
    return assumed_cpu[0] != '\0';
}

uint32_t profile_threads(uint32_t of_run)
{
    return assumed_threads > 0 ? assumed_threads : of_run;
}

/* A non-negative finite number; -1 otherwise. */
static double number_at(const json_t *object, const char *key)
{
    const json_t *item = json_object_get(object, key);
    double value = json_is_number(item) ? json_number_value(item) : -1;

    return isfinite(value) && value >= 0 ? value : -1;
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL && strlen(text) < 200 ? text : NULL;
}

static inlay_dtype dtype_of(const char *name)
{
    for (inlay_dtype dtype = 1; dtype < INLAY_DTYPE_COUNT; dtype++)
        if (strcmp(inlay_dtype_name(dtype), name) == 0)
            return dtype;
    return INLAY_UNDEFINED;
}

/* Converts "x_per_s" to nanoseconds per x; 0 = no cost. -1: not a rate. */
static double inverse(double per_second)
{
    return per_second < 0 ? -1 : per_second == 0 ? 0 : 1e9 / per_second;
}

/* Element i of a list as a non-negative finite number; -1 otherwise. */
static double number_in(const json_t *list, size_t i)
{
    const json_t *item = json_array_get(list, i);
    double value = json_is_number(item) ? json_number_value(item) : -1;

    return isfinite(value) && value >= 0 ? value : -1;
}

/* A line is a list in the order of line_columns: hundreds of objects would slow down the start of every session. */
static bool read_line(const json_t *item, struct arena *arena, void *to)
{
    profile_line *out = to;
    const char *op = json_string_value(json_array_get(item, 0)), *variant = json_string_value(json_array_get(item, 1));
    const char *type = json_string_value(json_array_get(item, 2));
    double threads = number_in(item, 3), points = number_in(item, 8), error = number_in(item, 9);
    double *ns = out->fit.ns_per;

    ns[FIT_ONE] = number_in(item, 4);
    ns[FIT_FLOPS] = inverse(number_in(item, 5));
    ns[FIT_BYTES] = inverse(number_in(item, 6));
    ns[FIT_FAR] = inverse(number_in(item, 7));
    ns[FIT_MODEL] = number_in(item, 10);
    ns[FIT_COLD] = inverse(number_in(item, 11));
    if (op == NULL || variant == NULL || type == NULL || threads < 1 || threads > 4096 || points < 1 || points > 1e6 ||
        error < 1 || strlen(op) >= 200)
        return false;
    for (int t = 0; t < FIT_TERMS; t++)
        if (!(ns[t] >= 0))
            return false;
    out->class.op = arena_string(arena, op);
    out->class.variant = cost_variant_of(variant);
    out->class.dtype = dtype_of(type);
    out->threads = (uint32_t)threads;
    out->fit.points = (uint32_t)points;
    out->fit.error = error;
    return out->class.op != NULL && out->class.variant < COST_VARIANT_COUNT;
}

static bool read_factor(const json_t *item, struct arena *arena, void *to)
{
    profile_factor *out = to;
    double threads = number_at(item, "threads");

    (void)arena;
    out->factor = number_at(item, "factor");
    out->border = number_at(item, "border");
    out->threads = threads < 1 || threads > 4096 ? 0 : (uint32_t)threads;
    return out->threads > 0 && out->factor > 0 && out->border > 0;
}

static bool read_copy(const json_t *item, profile_copy *out)
{
    out->latency_ns = number_at(item, "latency_ns");
    out->ns_per_byte = inverse(number_at(item, "bytes_per_s"));
    return out->latency_ns >= 0 && out->ns_per_byte >= 0;
}

static bool read_link(const json_t *item, struct arena *arena, void *to)
{
    profile_link *out = to;
    const char *domain = text_at(item, "domain");

    out->domain = domain != NULL ? arena_string(arena, domain) : NULL;
    return out->domain != NULL && read_copy(json_object_get(item, "to"), &out->to) &&
           read_copy(json_object_get(item, "from"), &out->from);
}

/* Reads the items of the list `key` of `object`, item_bytes bytes each in the arena. NULL: the file is malformed, or
 * memory ran out. */
static void *read_list(const json_t *object, const char *key, size_t item_bytes,
                       bool (*read_one)(const json_t *item, struct arena *arena, void *out), struct arena *arena,
                       uint32_t *out_count)
{
    const json_t *list = json_object_get(object, key);
    const size_t count = json_array_size(list);
    char *items = json_is_array(list) && count <= MAX_ITEMS ? arena_array(arena, count + 1, item_bytes) : NULL;

    *out_count = 0;
    for (size_t i = 0; items != NULL && i < count; i++)
        if (!read_one(json_array_get(list, i), arena, items + i * item_bytes))
            return NULL;
    if (items != NULL)
        *out_count = (uint32_t)count;
    return items;
}

static bool read_provider(const json_t *item, struct arena *arena, void *to)
{
    profile_provider *out = to;
    const char *name = text_at(item, "name"), *build_id = text_at(item, "build_id"),
               *identity = text_at(item, "identity");

    if (name == NULL || build_id == NULL || identity == NULL)
        return false;
    out->name = arena_string(arena, name);
    out->build_id = arena_string(arena, build_id);
    out->identity = strtoull(identity, NULL, 16);
    out->lines = read_list(item, "lines", sizeof *out->lines, read_line, arena, &out->line_count);
    out->factors = read_list(item, "factors", sizeof *out->factors, read_factor, arena, &out->factor_count);
    out->links = read_list(item, "links", sizeof *out->links, read_link, arena, &out->link_count);
    return out->name != NULL && out->build_id != NULL && out->lines != NULL && out->factors != NULL &&
           out->links != NULL;
}

/* The members of a speed in files, all per nanosecond but loop_ns. */
static const struct {
    const char *key;
    size_t offset;
    bool appended; /* 0 in files without it */
} speed_members[] = { { "flops_baseline", offsetof(inlay_speed, flops_baseline), false },
                      { "flops_v3", offsetof(inlay_speed, flops_v3), false },
                      { "flops_v4", offsetof(inlay_speed, flops_v4), false },
                      { "core_bytes", offsetof(inlay_speed, core_bytes), false },
                      { "near_bytes", offsetof(inlay_speed, near_bytes), false },
                      { "shared_bytes", offsetof(inlay_speed, shared_bytes), false },
                      { "memory_bytes", offsetof(inlay_speed, memory_bytes), false },
                      { "loop_ns", offsetof(inlay_speed, loop_ns), false },
                      { "tile_bytes", offsetof(inlay_speed, tile_bytes), true },
                      { "tile_bfloat16", offsetof(inlay_speed, tile_bfloat16), true } };
enum { SPEED_MEMBERS = sizeof speed_members / sizeof speed_members[0] };

static bool read_speed(const json_t *item, inlay_speed *out)
{
    *out = (inlay_speed){ .struct_size = sizeof *out };
    for (int i = 0; i < SPEED_MEMBERS; i++) {
        const char *key = speed_members[i].key;
        const bool missing = speed_members[i].appended && json_object_get(item, key) == NULL;
        const double value = missing ? 0 : number_at(item, key);

        if (value < 0)
            return false;
        memcpy((char *)out + speed_members[i].offset, &value, sizeof value);
    }
    return true;
}

static bool read_profile(const json_t *item, cost_profile *out)
{
    const char *cpu = text_at(item, "cpu");

    if (cpu == NULL || json_integer_value(json_object_get(item, "format")) != FORMAT)
        return false;
    (void)snprintf(out->cpu, sizeof out->cpu, "%s", cpu);
    out->providers =
        read_list(item, "providers", sizeof *out->providers, read_provider, &out->arena, &out->provider_count);
    return out->providers != NULL && read_speed(json_object_get(item, "speed"), &out->speed);
}

inlay_status profile_load(const char *folder, const char *name, const cost_log *log, cost_profile *out)
{
    const char *file = name != NULL ? name : file_name;
    char *data, cpu[sizeof out->cpu];
    size_t bytes;
    inlay_status status = cost_file_read(folder, file, MAX_FILE, log, &data, &bytes);
    json_t *json = NULL;

    *out = (cost_profile){ .provider_count = 0 };
    if (status != INLAY_OK || data == NULL)
        return status;
    json = json_loadb(data, bytes, 0, NULL);
    free(data);
    if (json == NULL || !read_profile(json, out)) {
        cost_say(
            log, INLAY_LOG_WARNING,
            "costs: %.300s/%s is ignored: it is damaged, or of another version; run inlay tune --machine to replace it",
            folder, file);
        profile_deinit(out);
    }
    profile_cpu(cpu, sizeof cpu);
    if (out->cpu[0] != '\0' && strcmp(cpu, out->cpu) != 0) {
        cost_say(log, INLAY_LOG_WARNING,
                 "costs: %.300s/%s is ignored: it was made on another machine, '%s'; run inlay tune --machine on this "
                 "one",
                 folder, file, out->cpu);
        profile_deinit(out);
    }
    json_decref(json);
    return INLAY_OK;
}

/* Converts nanoseconds per x to a rate; 0 = no limit. */
static double rate(double ns_per)
{
    return ns_per > 0 ? 1e9 / ns_per : 0;
}

/* Names of the elements of a line; a rate of 0 means no limit. */
static const char line_columns[] = "op, variant, type, threads, launch_ns, flops_per_s, bytes_per_s, far_bytes_per_s, "
                                   "points, error, model_factor, "
                                   "cold_bytes_per_s";

static json_t *line_json(const profile_line *line)
{
    const double *ns = line->fit.ns_per;

    return json_pack("[s, s, s, i, f, f, f, f, i, f, f, f]", line->class.op, cost_variant_name(line->class.variant),
                     line->class.dtype == INLAY_UNDEFINED ? "any" : inlay_dtype_name(line->class.dtype),
                     (int)line->threads, ns[FIT_ONE], rate(ns[FIT_FLOPS]), rate(ns[FIT_BYTES]), rate(ns[FIT_FAR]),
                     (int)line->fit.points, line->fit.error, ns[FIT_MODEL], rate(ns[FIT_COLD]));
}

static json_t *copy_json(const profile_copy *copy)
{
    return json_pack("{s:f, s:f}", "latency_ns", copy->latency_ns, "bytes_per_s", rate(copy->ns_per_byte));
}

static json_t *provider_json(const profile_provider *provider)
{
    char identity[24];
    json_t *lines = json_array(), *factors = json_array(), *links = json_array();
    int bad = 0;

    (void)snprintf(identity, sizeof identity, "%016llx", (unsigned long long)provider->identity);
    for (uint32_t i = 0; i < provider->line_count; i++)
        bad |= json_array_append_new(lines, line_json(&provider->lines[i]));
    for (uint32_t i = 0; i < provider->factor_count; i++)
        bad |= json_array_append_new(factors, json_pack("{s:i, s:f, s:f}", "threads", (int)provider->factors[i].threads,
                                                        "factor", provider->factors[i].factor, "border",
                                                        provider->factors[i].border));
    for (uint32_t i = 0; i < provider->link_count; i++)
        bad |= json_array_append_new(links, json_pack("{s:s, s:o, s:o}", "domain", provider->links[i].domain, "to",
                                                      copy_json(&provider->links[i].to), "from",
                                                      copy_json(&provider->links[i].from)));
    if (bad != 0) {
        json_decref(lines);
        json_decref(factors);
        json_decref(links);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "name", provider->name, "build_id", provider->build_id,
                     "identity", identity, "factors", factors, "links", links, "lines", lines);
}

static json_t *speed_json(const inlay_speed *speed)
{
    json_t *json = json_object();

    for (int i = 0; i < SPEED_MEMBERS; i++) {
        double value;

        memcpy(&value, (const char *)speed + speed_members[i].offset, sizeof value);
        if (json_object_set_new(json, speed_members[i].key, json_real(value)) != 0) {
            json_decref(json);
            return NULL;
        }
    }
    return json;
}

inlay_status profile_save(const char *folder, const char *name, const cost_profile *profile, inlay_diag *diag)
{
    json_t *providers = json_array(), *json;
    char when[32] = "", *text = NULL;
    time_t now = time(NULL);
    struct tm utc;
    inlay_status status;
    int bad = 0;

    for (uint32_t i = 0; i < profile->provider_count; i++)
        bad |= json_array_append_new(providers, provider_json(&profile->providers[i]));
    if (gmtime_r(&now, &utc) != NULL)
        (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json = json_pack("{s:i, s:s, s:s, s:s, s:s, s:o, s:o}", "format", FORMAT, "cpu", profile->cpu, "host",
                     "inlay " INLAY_VERSION, "written", when, "line_columns", line_columns, "providers", providers,
                     "speed", speed_json(&profile->speed));
    if (json != NULL && bad == 0)
        text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(5));
    json_decref(json);
    if (text == NULL)
        return no_memory(diag, "to write the machine profile");
    status = cost_file_write(folder, name != NULL ? name : file_name, text, strlen(text), diag);
    free(text);
    return status;
}
