/* Reads certificates, and compares a node with them. */
#include "partition/certificate/certificate.h"
#include "base/memory.h"
#include "base/output.h"
#include "base/sha256.h"
#include "inlay/check.h"
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REASON = 160 };

/* A file that is being read. Once a step has failed, the others do nothing. */
struct reader {
    const char *path;
    struct arena *arena;
    inlay_status status;
    inlay_diag *diag;
};

static void no_room(struct reader *reader)
{
    if (reader->status == INLAY_OK)
        reader->status = no_memory(reader->diag, "for the certificate %s", reader->path);
}

static void *take(struct reader *reader, size_t count, size_t bytes)
{
    void *memory = arena_array(reader->arena, count + 1, bytes);

    if (memory == NULL)
        no_room(reader);
    return memory;
}

INLAY_PRINTF(2, 3) static void refuse(struct reader *reader, const char *format, ...)
{
    char text[300];
    va_list args;

    if (reader->status != INLAY_OK)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    reader->status =
        inlay_fail(reader->diag, INLAY_INVALID_ARGUMENT,
                   "option trust: %s: %s; `inlay plugin-check --certificate` writes such files", reader->path, text);
}

/* A copy of the text of a string. */
static const char *copy_text(struct reader *reader, const json_t *string)
{
    char *copy = arena_string_n(reader->arena, json_string_value(string), json_string_length(string));

    if (copy == NULL)
        no_room(reader);
    return copy;
}

/* Unpacks the members of an object; a member that is missing, unknown or of another type is an error. */
static void unpack(struct reader *reader, json_t *object, const char *place, const char *format, ...)
{
    json_error_t error;
    va_list args;

    va_start(args, format);
    if (reader->status == INLAY_OK && json_vunpack_ex(object, &error, JSON_STRICT, format, args) != 0)
        refuse(reader, "%s: %s", place, error.text);
    va_end(args);
}

static bool read_level(struct reader *reader, const json_t *number, double *out)
{
    *out = json_number_value(number);
    if (!json_is_number(number) || !(*out >= 0))
        refuse(reader, "a level is not a number of at least 0");
    return reader->status == INLAY_OK;
}

/* {"kind": "form", "trait": "dilations 3"}, for the other kinds with "low" and "high" (null: no limit) */
static void read_range(struct reader *reader, json_t *object, trait_range *out)
{
    static const char *const kinds[TRAIT_KINDS] = { "form", "remainder", "amount" };
    const char *kind = "";
    json_t *name = NULL, *low = NULL, *high = NULL;

    unpack(reader, object, "a difference", "{s:s, s:o, s:o, s:o}", "kind", &kind, "trait", &name, "low", &low, "high",
           &high);
    if (reader->status != INLAY_OK)
        return;
    while (out->kind < TRAIT_KINDS && strcmp(kinds[out->kind], kind) != 0)
        out->kind++;
    if (out->kind == TRAIT_KINDS || !json_is_string(name)) {
        refuse(reader, "a difference has no trait of a known kind");
        return;
    }
    out->name = copy_text(reader, name);
    out->high = INFINITY;
    if (read_level(reader, low, &out->low) && !json_is_null(high))
        (void)read_level(reader, high, &out->high);
}

static void read_differences(struct reader *reader, const json_t *list, certificate_operator *op)
{
    op->difference_count = (uint32_t)json_array_size(list);
    op->differences = take(reader, op->difference_count, sizeof *op->differences);
    for (uint32_t i = 0; reader->status == INLAY_OK && i < op->difference_count; i++) {
        certificate_difference *difference = &op->differences[i];
        const char *example;
        json_int_t cases;
        json_t *when = NULL;
        trait_range *ranges;

        unpack(reader, json_array_get(list, i), op->op_type, "{s:o, s:I, s:s}", "when", &when, "cases", &cases,
               "example", &example);
        difference->count = (uint32_t)json_array_size(when);
        if (difference->count == 0 || difference->count > CERTIFICATE_RANGES)
            refuse(reader, "%s: a difference has %u traits", op->op_type, difference->count);
        ranges = take(reader, difference->count, sizeof *ranges);
        difference->when = ranges;
        for (uint32_t k = 0; reader->status == INLAY_OK && k < difference->count; k++)
            read_range(reader, json_array_get(when, k), &ranges[k]);
    }
}

/* Reads which forms occurred together: for each form the indices of later ones. */
static void read_together(struct reader *reader, const json_t *list, certificate_operator *op)
{
    uint8_t *together = take(reader, (size_t)op->form_count * op->form_count, 1);

    op->together = together;
    if (reader->status == INLAY_OK && json_array_size(list) != op->form_count)
        refuse(reader, "%s: 'together' has not one list for each form", op->op_type);
    for (uint32_t i = 0; reader->status == INLAY_OK && i < op->form_count; i++) {
        const json_t *others = json_array_get(list, i);
        size_t at;
        json_t *other;

        if (!json_is_array(others))
            refuse(reader, "%s: 'together' has something else than lists", op->op_type);
        json_array_foreach(others, at, other) {
            const json_int_t k = json_integer_value(other);

            if (!json_is_integer(other) || k <= (json_int_t)i || k >= (json_int_t)op->form_count)
                refuse(reader, "%s: 'together' has an index outside of the forms", op->op_type);
            else
                together[i * op->form_count + (size_t)k] = together[(size_t)k * op->form_count + i] = 1;
        }
    }
}

/* Reads a sorted list of different texts. */
static const char **read_sorted(struct reader *reader, const json_t *list, const certificate_operator *op,
                                const char *what, uint32_t *out_count)
{
    const size_t count = json_array_size(list);
    const char **texts = take(reader, count, sizeof *texts);

    *out_count = (uint32_t)count;
    for (size_t i = 0; reader->status == INLAY_OK && i < count; i++) {
        texts[i] = json_is_string(json_array_get(list, i)) ? copy_text(reader, json_array_get(list, i)) : NULL;
        if (texts[i] == NULL || (i > 0 && strcmp(texts[i - 1], texts[i]) >= 0))
            refuse(reader, "%s: '%s' is not a sorted list of different texts", op->op_type, what);
    }
    return texts;
}

static void add_range(struct reader *reader, certificate_operator *op, uint32_t kind, const char *name, double low,
                      double high)
{
    if (reader->status == INLAY_OK && !ARENA_GROW(reader->arena, op->ranges, op->range_count))
        no_room(reader);
    if (reader->status == INLAY_OK)
        op->ranges[op->range_count++] = (trait_range){ kind, name, low, high };
}

/* {"size 1 of X": [0, 1, 3]} and {"elements": 4096} */
static void read_ranges(struct reader *reader, json_t *remainders, json_t *amounts, certificate_operator *op)
{
    const char *key;
    json_t *value, *level;
    double number;
    size_t i;

    json_object_foreach(remainders, key, value) {
        const char *name = arena_string(reader->arena, key);

        if (name == NULL)
            no_room(reader);
        if (!json_is_array(value))
            refuse(reader, "%s: '%s' has no list of remainders", op->op_type, key);
        json_array_foreach(value, i, level)
            if (read_level(reader, level, &number))
                add_range(reader, op, TRAIT_REMAINDER, name, number, number);
    }
    json_object_foreach(amounts, key, value) {
        const char *name = arena_string(reader->arena, key);

        if (name == NULL)
            no_room(reader);
        if (read_level(reader, value, &number))
            add_range(reader, op, TRAIT_AMOUNT, name, 0, number);
    }
}

static void read_operator(struct reader *reader, json_t *object, certificate_operator *op)
{
    json_t *domain = NULL, *op_type = NULL, *outside = NULL, *forms = NULL, *together = NULL, *remainders = NULL,
           *amounts = NULL, *differences = NULL, *nodes = NULL;
    json_int_t cases, differed;
    double largest;
    int grouped = 0;

    unpack(reader, object, "an operator", "{s:o, s:o, s:b, s:I, s:I, s:F, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "domain",
           &domain, "operator", &op_type, "grouped", &grouped, "cases", &cases, "differed", &differed, "largest_error",
           &largest, "outside", &outside, "forms", &forms, "together", &together, "remainders", &remainders, "amounts",
           &amounts, "differences", &differences, "nodes", &nodes);
    if (reader->status == INLAY_OK &&
        (!json_is_string(domain) || !json_is_string(op_type) || !(json_is_string(outside) || json_is_null(outside)) ||
         !json_is_array(forms) || !json_is_array(together) || !json_is_object(remainders) || !json_is_object(amounts) ||
         !json_is_array(differences) || !json_is_array(nodes)))
        refuse(reader, "an operator has a member of another type");
    if (reader->status != INLAY_OK)
        return;
    op->domain = copy_text(reader, domain);
    op->op_type = copy_text(reader, op_type);
    op->grouped = grouped != 0;
    op->outside = json_is_string(outside) ? copy_text(reader, outside) : NULL;
    op->forms = read_sorted(reader, forms, op, "forms", &op->form_count);
    if (op->form_count > CERTIFICATE_FORMS)
        refuse(reader, "%s has more than %d forms", op->op_type, CERTIFICATE_FORMS);
    op->nodes = read_sorted(reader, nodes, op, "nodes", &op->node_count);
    read_together(reader, together, op);
    read_ranges(reader, remainders, amounts, op);
    read_differences(reader, differences, op);
}

static void read_options(struct reader *reader, const json_t *list, certificate_provider *provider)
{
    provider->option_count = (uint32_t)json_array_size(list);
    provider->options = take(reader, provider->option_count, sizeof *provider->options);
    for (uint32_t i = 0; reader->status == INLAY_OK && i < provider->option_count; i++) {
        json_t *name = NULL, *value = NULL, *sum = NULL;

        unpack(reader, json_array_get(list, i), provider->name, "{s:o, s:o, s:o}", "name", &name, "value", &value,
               "sha256", &sum);
        if (reader->status == INLAY_OK &&
            (!json_is_string(name) || !json_is_string(value) || !(json_is_string(sum) || json_is_null(sum))))
            refuse(reader, "%s: name, value and sha256 of an option must be texts", provider->name);
        if (reader->status == INLAY_OK)
            provider->options[i] = (certificate_option){ .name = copy_text(reader, name),
                                                         .value = copy_text(reader, value),
                                                         .sha256 = json_is_null(sum) ? NULL : copy_text(reader, sum) };
    }
}

static void read_groups(struct reader *reader, const json_t *list, certificate_provider *provider)
{
    provider->groups = take(reader, json_array_size(list), sizeof *provider->groups);
    for (uint32_t i = 0; reader->status == INLAY_OK && i < json_array_size(list); i++) {
        json_int_t cases, differed;
        json_t *nodes = NULL;

        unpack(reader, json_array_get(list, i), provider->name, "{s:o, s:I, s:I}", "nodes", &nodes, "cases", &cases,
               "differed", &differed);
        if (reader->status == INLAY_OK && !json_is_string(nodes))
            refuse(reader, "%s: nodes of a group must be a text", provider->name);
        if (reader->status == INLAY_OK && differed == 0 && cases > 0)
            provider->groups[provider->group_count++] = copy_text(reader, nodes);
    }
}

static void read_provider(struct reader *reader, json_t *object, certificate_provider *provider)
{
    json_t *name = NULL, *options = NULL, *failed = NULL, *groups = NULL, *operators = NULL;
    int merges = 0;

    unpack(reader, object, "a provider", "{s:o, s:o, s:b, s:o, s:o, s:o}", "provider", &name, "options", &options,
           "merges", &merges, "failed", &failed, "groups", &groups, "operators", &operators);
    if (reader->status == INLAY_OK &&
        (!json_is_string(name) || !json_is_array(options) || !(json_is_string(failed) || json_is_null(failed)) ||
         !json_is_array(groups) || !json_is_array(operators)))
        refuse(reader, "a provider has a member of another type");
    if (reader->status != INLAY_OK)
        return;
    provider->name = copy_text(reader, name);
    provider->merges = merges != 0;
    provider->failed = json_is_string(failed) ? copy_text(reader, failed) : NULL;
    read_options(reader, options, provider);
    read_groups(reader, groups, provider);
    provider->operator_count = (uint32_t)json_array_size(operators);
    provider->operators = take(reader, provider->operator_count, sizeof *provider->operators);
    for (uint32_t i = 0; reader->status == INLAY_OK && i < provider->operator_count; i++)
        read_operator(reader, json_array_get(operators, i), &provider->operators[i]);
}

static void read_root(struct reader *reader, json_t *root, certificate_file *out)
{
    json_t *providers = NULL, *sum = NULL;
    const char *version, *plugin;
    json_int_t seed;
    int format = 0, quick;

    if (json_integer_value(json_object_get(root, "inlay_certificate")) != CERTIFICATE_FORMAT)
        refuse(reader, "it is not a certificate of format %d", CERTIFICATE_FORMAT);
    unpack(reader, root, "the file", "{s:i, s:s, s:s, s:o, s:b, s:I, s:o}", "inlay_certificate", &format, "version",
           &version, "plugin", &plugin, "sha256", &sum, "quick", &quick, "seed", &seed, "providers", &providers);
    if (reader->status == INLAY_OK && (!json_is_string(sum) || !json_is_array(providers)))
        refuse(reader, "'sha256' must be a text, and 'providers' a list");
    if (reader->status != INLAY_OK)
        return;
    out->plugin_sha256 = copy_text(reader, sum);
    out->provider_count = (uint32_t)json_array_size(providers);
    out->providers = take(reader, out->provider_count, sizeof *out->providers);
    for (uint32_t i = 0; reader->status == INLAY_OK && i < out->provider_count; i++)
        read_provider(reader, json_array_get(providers, i), &out->providers[i]);
}

inlay_status certificate_load(const char *path, struct arena *arena, certificate_file **out, inlay_diag *diag)
{
    struct reader reader = { path, arena, INLAY_OK, diag };
    json_error_t error;
    json_t *root;

    *out = take(&reader, 1, sizeof **out);
    if (*out == NULL)
        return reader.status;
    (*out)->path = arena_string(arena, path);
    root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL && json_error_code(&error) == json_error_cannot_open_file)
        return inlay_fail(diag, INLAY_NOT_FOUND, "option trust: %s", error.text);
    if ((*out)->path == NULL || (root == NULL && json_error_code(&error) == json_error_out_of_memory))
        no_room(&reader);
    else if (root == NULL)
        refuse(&reader, "line %d: %s", error.line, error.text);
    else
        read_root(&reader, root, *out);
    json_decref(root);
    return reader.status;
}

const certificate_provider *certificate_find(const certificate_file *file, const char *provider)
{
    for (uint32_t i = 0; i < file->provider_count; i++)
        if (strcmp(file->providers[i].name, provider) == 0)
            return &file->providers[i];
    return NULL;
}

inlay_status certificate_hash_file(const char *path, char out_text[65], inlay_diag *diag)
{
    FILE *file = fopen(path, "rbe");
    char block[1 << 14];
    struct sha256 sha256;
    size_t bytes;
    bool ok;

    if (file == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    output_note_read(fileno(file));
    sha256_init(&sha256);
    while ((bytes = fread(block, 1, sizeof block, file)) > 0)
        sha256_update(&sha256, block, bytes);
    ok = ferror(file) == 0;
    (void)fclose(file);
    sha256_hex(&sha256, out_text);
    return ok ? INLAY_OK : inlay_fail(diag, INLAY_IO_ERROR, "%s: it cannot be read", path);
}

static const char *find_setting(const certificate_identity *opened_as, const char *name)
{
    for (uint32_t i = 0; i < opened_as->setting_count; i++)
        if (strcmp(opened_as->settings[i].name, name) == 0)
            return opened_as->settings[i].value;
    return NULL;
}

static bool has_option(const certificate_provider *provider, const char *name)
{
    for (uint32_t i = 0; i < provider->option_count; i++)
        if (strcmp(provider->options[i].name, name) == 0)
            return true;
    return false;
}

static inlay_status compare_file(const certificate_file *file, const char *what, const char *path, const char *sum,
                                 inlay_diag *diag)
{
    char is[65];
    const inlay_status status = certificate_hash_file(path, is, diag);

    if (status == INLAY_OK && strcmp(is, sum) != 0)
        return inlay_fail(
            diag, INLAY_INVALID_ARGUMENT,
            "option trust: %s was written for another build of %s %s, with SHA-256 %.12s..., not %.12s...; "
            "check it again with `inlay plugin-check --certificate`",
            file->path, what, path, sum, is);
    return status;
}

inlay_status certificate_fits(const certificate_file *file, const certificate_provider *provider,
                              const certificate_identity *opened_as, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    if (opened_as->plugin_path == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option trust: %s: provider %s is not from a file", file->path,
                          provider->name);
    INLAY_TRY(compare_file(file, "plugin", opened_as->plugin_path, file->plugin_sha256, diag));
    for (uint32_t i = 0; i < provider->option_count; i++) {
        const certificate_option *option = &provider->options[i];
        const char *value = find_setting(opened_as, option->name);

        if (value != NULL && option->sha256 != NULL)
            INLAY_TRY(compare_file(file, option->name, value, option->sha256, diag));
        else if (value == NULL || strcmp(value, option->value) != 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "option trust: %s was written for provider %s with %s=%s, the session has %s", file->path,
                              provider->name, option->name, option->value, value != NULL ? value : "no such setting");
    }
    for (uint32_t i = 0; i < opened_as->setting_count; i++)
        if (!has_option(provider, opened_as->settings[i].name))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "option trust: %s was written for provider %s without option %s; check it with "
                              "--option %s=%s",
                              file->path, provider->name, opened_as->settings[i].name, opened_as->settings[i].name,
                              opened_as->settings[i].value);
done:
    return status;
}

char *certificate_group_text(const struct graph *graph, const uint32_t *nodes, uint32_t node_count, char *text,
                             size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < node_count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i > 0 ? " " : "",
                                 graph->nodes[nodes[i]]->info.op_type.data);
    return text;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The index of a form; form_count: it did not occur. */
static uint32_t find_form(const certificate_operator *op, const char *name)
{
    const char **at =
        op->form_count == 0 ? NULL : bsearch(&name, op->forms, op->form_count, sizeof *op->forms, compare_names);

    return at != NULL ? (uint32_t)(at - op->forms) : op->form_count;
}

/* Has a case that agreed had this level, or a larger amount? A remainder counts for all axes of an input, that of a
 * small size for all inputs: those that tell which results differ are among the differences, by axis. */
static bool is_checked(const certificate_operator *op, const node_trait *trait)
{
    const char *input = trait->kind == TRAIT_REMAINDER ? strstr(trait->name, " of ") : NULL;

    /* Sizes count by their largest ("largest size"); by axis they tell which results differ. */
    if (trait->is_open || (trait->kind == TRAIT_AMOUNT && strncmp(trait->name, "size ", 5) == 0))
        return true;
    if (trait->kind == TRAIT_FORM)
        return find_form(op, trait->name) < op->form_count;
    for (uint32_t i = 0; i < op->range_count; i++) {
        const trait_range *range = &op->ranges[i];
        const char *other = input != NULL ? strstr(range->name, " of ") : NULL;

        if (traits_in_range(trait, range) ||
            (other != NULL && range->kind == TRAIT_REMAINDER && range->low == trait->level &&
             (trait->level < TRAIT_LARGE_SIZE || strcmp(other, input) == 0)))
            return true;
    }
    return false;
}

static bool differs(const certificate_difference *difference, const node_traits *traits)
{
    for (uint32_t k = 0; k < difference->count; k++) {
        bool found = false;

        for (uint32_t i = 0; i < traits->count && !found; i++)
            found = traits_in_range(&traits->list[i], &difference->when[k]);
        if (!found)
            return false;
    }
    return true;
}

/* Two forms of the node that no case has had together. */
static bool find_new_pair(const certificate_operator *op, const node_traits *traits, char *why, size_t bytes)
{
    uint32_t forms[MOST_TRAITS], count = 0;

    for (uint32_t i = 0; i < traits->count; i++)
        if (traits->list[i].kind == TRAIT_FORM && !traits->list[i].is_open)
            forms[count++] = find_form(op, traits->list[i].name);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = i + 1; k < count; k++)
            if (op->together[(size_t)forms[i] * op->form_count + forms[k]] == 0) {
                (void)snprintf(why, bytes, "%.60s with %.60s", op->forms[forms[i]], op->forms[forms[k]]);
                return true;
            }
    return false;
}

static bool is_inside(const certificate_operator *op, const node_traits *traits, char *why, size_t bytes)
{
    char text[TRAIT_BYTES + 32];
    size_t used = 0;

    if (op->outside != NULL || traits->is_cut) {
        (void)snprintf(why, bytes, "%s", op->outside != NULL ? op->outside : "its inputs have no known form");
        return false;
    }
    for (uint32_t i = 0; i < traits->count; i++)
        if (!is_checked(op, &traits->list[i])) {
            (void)snprintf(why, bytes, "%s", trait_text(&traits->list[i], text, sizeof text));
            return false;
        }
    if (find_new_pair(op, traits, why, bytes))
        return false;
    for (uint32_t d = 0; d < op->difference_count; d++) {
        if (!differs(&op->differences[d], traits))
            continue;
        used = (size_t)snprintf(why, bytes, "results differ for ");
        for (uint32_t k = 0; k < op->differences[d].count && used < bytes; k++)
            used += (size_t)snprintf(why + used, bytes - used, "%s%s", k > 0 ? ", " : "",
                                     trait_range_text(&op->differences[d].when[k], text, sizeof text));
        return false;
    }
    return true;
}

/* Did exactly this node agree, as one of a model? */
static bool has_node(const certificate_operator *op, const struct graph *graph, uint32_t node)
{
    char exact[TRAITS_EXACT_BYTES];
    const char *text = exact;

    return op->node_count > 0 && traits_exact(graph, node, exact) &&
           bsearch(&text, op->nodes, op->node_count, sizeof *op->nodes, compare_names) != NULL;
}

/* Is the node inside? With grouped, as a part of a group. */
static bool covers_node(const certificate_provider *provider, const struct graph *graph, uint32_t node, bool grouped,
                        char *why, size_t bytes)
{
    const inlay_node_info *info = &graph->nodes[node]->info;
    node_traits traits;

    for (uint32_t i = 0; i < provider->operator_count; i++) {
        const certificate_operator *op = &provider->operators[i];

        if (op->grouped != grouped || strcmp(op->op_type, info->op_type.data) != 0 ||
            strcmp(op->domain, info->domain.data) != 0)
            continue;
        if (has_node(op, graph, node))
            return true;
        traits_list(graph, node, NULL, NULL, &traits);
        return is_inside(op, &traits, why, bytes);
    }
    (void)snprintf(why, bytes, "%s", info->op_type.data);
    return false;
}

bool certificate_covers(const certificate_provider *provider, const struct graph *graph, const uint32_t *nodes,
                        uint32_t node_count, char *why, size_t bytes)
{
    char reason[2 * MOST_REASON], group[MOST_REASON];
    bool inside = provider->failed == NULL;

    if (!inside)
        (void)snprintf(reason, sizeof reason, "%s", provider->failed);
    if (inside && node_count > 1) {
        inside = false;
        (void)certificate_group_text(graph, nodes, node_count, group, sizeof group);
        for (uint32_t i = 0; i < provider->group_count; i++)
            inside = inside || strcmp(provider->groups[i], group) == 0;
        if (!inside)
            (void)snprintf(reason, sizeof reason, "%s together", group);
    }
    for (uint32_t i = 0; i < node_count && inside; i++)
        inside = covers_node(provider, graph, nodes[i], node_count > 1, reason, sizeof reason);
    if (!inside)
        (void)snprintf(why, bytes, "outside what was checked: %s", reason);
    return inside;
}
