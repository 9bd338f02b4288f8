/* The differences between two records, as rows. */
#include "lock/lock.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { WHAT, WAS, IS, VERDICT, COLUMNS };
static const table_column columns[COLUMNS] = {
    [WHAT] = { "what", "what", TABLE_NAME },
    [WAS] = { "was", "was", TABLE_NAME },
    [IS] = { "is", "is", TABLE_NAME },
    [VERDICT] = { "verdict", "verdict", TABLE_TEXT },
};

typedef enum lock_verdict { SAME, CHANGED, BETTER, REGRESSION } lock_verdict;

INLAY_PRINTF(5, 6)
static void add_row(lock_report *report, lock_verdict verdict, const char *what, const char *was, const char *format,
                    ...)
{
    static const char *const words[] = { "same", "changed", "better", "regression" };
    char is[512];
    va_list args;

    report->changes += verdict == CHANGED || verdict == BETTER;
    report->regressions += verdict == REGRESSION;
    if (verdict == SAME && !report->all)
        return;
    va_start(args, format);
    (void)vsnprintf(is, sizeof is, format, args);
    va_end(args);
    table_row(&report->table);
    table_text(&report->table, WHAT, what);
    table_text(&report->table, WAS, was);
    table_text(&report->table, IS, is);
    table_text(&report->table, VERDICT, words[verdict]);
}

/* A change that the user may not want, but that is no fault by itself. */
static lock_verdict changed(const lock_report *report)
{
    return report->strict ? REGRESSION : CHANGED;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "-";
}

static void compare_texts(lock_report *report, lock_verdict differs, const char *what, const json_t *was,
                          const json_t *is, const char *key)
{
    const char *before = text_of(was, key), *after = text_of(is, key);

    add_row(report, strcmp(before, after) == 0 ? SAME : differs, what, before, "%s", after);
}

static bool has(const json_t *list, const json_t *item)
{
    json_t *other;
    size_t i;

    json_array_foreach(list, i, other)
        if (json_equal(other, item))
            return true;
    return false;
}

/* Adds a row for each text of `list` that `other` does not have. */
static void compare_lists(lock_report *report, lock_verdict verdict, const char *what, const json_t *list,
                          const json_t *other, bool gone)
{
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item) {
        const char *text = json_is_string(item) ? json_string_value(item) : "-";

        if (!has(other, item))
            add_row(report, verdict, what, gone ? text : "-", "%s", gone ? "-" : text);
    }
}

static const json_t *find_named(const json_t *list, const char *name)
{
    json_t *entry;
    size_t i;

    json_array_foreach(list, i, entry)
        if (strcmp(text_of(entry, "name"), name) == 0)
            return entry;
    return NULL;
}

static void compare_output(lock_report *report, const json_t *was, const json_t *is, double limit)
{
    const json_t *error = json_object_get(is, "error");
    char what[300], before[200];

    (void)snprintf(what, sizeof what, "metric of '%s'", text_of(was, "name"));
    if (is != NULL)
        compare_texts(report, CHANGED, what, was, is, "metric");
    (void)snprintf(what, sizeof what, "output '%s'", text_of(was, "name"));
    (void)snprintf(before, sizeof before, "%s", text_of(was, "type"));
    if (is == NULL)
        add_row(report, REGRESSION, what, before, "missing");
    else if (strcmp(text_of(was, "type"), text_of(is, "type")) != 0)
        add_row(report, REGRESSION, what, before, "%s", text_of(is, "type"));
    else if (error == NULL)
        add_row(report, SAME, what, before, "the same bits");
    else if (json_is_string(json_object_get(error, "why")))
        add_row(report, REGRESSION, what, before, "other bits; %s", text_of(error, "why"));
    else
        add_row(report, lock_error_holds(error, text_of(is, "dtype"), limit) ? changed(report) : REGRESSION, what,
                before, "other bits; relative error %.3g (limit %.3g), largest %.3g%s",
                json_number_value(json_object_get(error, "relative")), limit,
                json_number_value(json_object_get(error, "max")),
                json_is_true(json_object_get(error, "other_class")) ? ", another class" : "");
}

static void compare_results(lock_report *report, const json_t *was, const json_t *is, double limit)
{
    const json_t *before = json_object_get(was, "inputs"), *after = json_object_get(is, "inputs");
    json_t *output;
    size_t i;

    if (!json_equal(before, after)) { /* then no output can be compared */
        add_row(report, REGRESSION, "inputs", "those of the record",
                "other values, or another number of samples (%zu, %zu)", json_array_size(before),
                json_array_size(after));
        return;
    }
    json_array_foreach(json_object_get(was, "outputs"), i, output)
        compare_output(report, output, find_named(json_object_get(is, "outputs"), text_of(output, "name")), limit);
    json_array_foreach(json_object_get(is, "outputs"), i, output)
        if (find_named(json_object_get(was, "outputs"), text_of(output, "name")) == NULL)
            add_row(report, changed(report), "output", "-", "%s", text_of(output, "name"));
}

/* {name: [provider, kernel]} */
static json_t *nodes_of(const json_t *record)
{
    json_t *all = json_object(), *region, *kernel;
    const char *name;
    size_t i;

    json_array_foreach(json_object_get(record, "regions"), i, region)
        json_object_foreach(json_object_get(region, "nodes"), name, kernel)
            (void)json_object_set_new(all, name, json_pack("[O, O]", json_object_get(region, "provider"), kernel));
    return all;
}

/* Adds the names of the nodes to which a provider makes an offer to an object: {"node\nprovider": true}. */
static void add_offers(const json_t *graph, json_t *offers)
{
    const char *path = json_string_value(json_object_get(graph, "path")), *key;
    json_t *node, *offer, *region, *body;
    size_t i, k;
    char name[700];

    json_array_foreach(json_object_get(graph, "nodes"), i, node)
        json_array_foreach(json_object_get(node, "offers"), k, offer) {
            (void)snprintf(name, sizeof name, "%s%s%s\n%s", path != NULL && strcmp(path, "main") != 0 ? path : "",
                           path != NULL && strcmp(path, "main") != 0 ? ": " : "", text_of(node, "name"),
                           text_of(offer, "provider"));
            (void)json_object_set_new(offers, name, json_true());
        }
    json_array_foreach(json_object_get(graph, "regions"), i, region)
        json_object_foreach(json_object_get(region, "bodies"), key, body)
            add_offers(body, offers);
}

/* Nodes with the same change make one row: the change is the key of the object, and the value lists the names. */
static void group(json_t *groups, const char *was, const char *is, bool refused, const char *name)
{
    char key[400];
    json_t *list;

    (void)snprintf(key, sizeof key, "%.120s\n%.120s\n%s%.100s%s", was, is, refused ? ", because " : "",
                   refused ? was : "", refused ? " no longer takes it" : "");
    list = json_object_get(groups, key);
    if (list == NULL && (list = json_array()) != NULL)
        (void)json_object_set_new(groups, key, list);
    (void)json_array_append_new(list, json_string(name));
}

static void add_groups(lock_report *report, const char *kind, const json_t *groups)
{
    const char *key;
    json_t *names;

    json_object_foreach((json_t *)groups, key, names) {
        const char *is = strchr(key, '\n') + 1, *refused = strchr(is, '\n') + 1;
        const size_t count = json_array_size(names);
        char what[400], was[128];

        (void)snprintf(was, sizeof was, "%.*s", (int)(is - key - 1), key);
        if (count == 1)
            (void)snprintf(what, sizeof what, "%s of '%s'", kind, json_string_value(json_array_get(names, 0)));
        else
            (void)snprintf(what, sizeof what, "%s of %zu nodes, '%s' ...", kind, count,
                           json_string_value(json_array_get(names, 0)));
        add_row(report, refused[0] != '\0' ? REGRESSION : changed(report), what, was, "%.*s%s", (int)(refused - is - 1),
                is, refused);
    }
}

static void compare_placement(lock_report *report, const json_t *was, const json_t *is, const json_t *explanation)
{
    json_t *before = nodes_of(was), *after = nodes_of(is), *offers = json_object(), *node;
    json_t *moves = json_object(), *kernels = json_object();
    size_t gone = 0, added = 0;
    const char *name;
    char key[700];

    add_offers(json_object_get(explanation, "main"), offers);
    json_object_foreach(before, name, node) {
        const json_t *now = json_object_get(after, name);
        const char *provider = json_string_value(json_array_get(node, 0)), *kernel, *other;

        gone += now == NULL;
        other = json_string_value(json_array_get(now, 0));
        if (provider == NULL || other == NULL)
            continue;
        (void)snprintf(key, sizeof key, "%s\n%s", name, provider);
        if (strcmp(provider, other) != 0) {
            group(moves, provider, other, json_object_get(offers, key) == NULL, name);
            continue;
        }
        kernel = json_string_value(json_array_get(node, 1));
        other = json_string_value(json_array_get(now, 1));
        if (kernel != NULL && other != NULL && strcmp(kernel, other) != 0)
            group(kernels, kernel, other, false, name);
    }
    json_object_foreach(after, name, node)
        added += json_object_get(before, name) == NULL;
    add_groups(report, "provider", moves);
    add_groups(report, "kernel", kernels);
    if (gone + added > 0) {
        (void)snprintf(key, sizeof key, "%zu nodes", json_object_size(before));
        add_row(report, changed(report), "optimised graph", key, "%zu nodes: %zu other ones, %zu gone",
                json_object_size(after), added, gone);
    }
    if (json_object_size(moves) + json_object_size(kernels) + gone + added == 0) {
        (void)snprintf(key, sizeof key, "%zu nodes", json_object_size(before));
        add_row(report, SAME, "providers and kernels", key, "the same");
    }
    json_decref(moves);
    json_decref(kernels);
    json_decref(before);
    json_decref(after);
    json_decref(offers);
}

/* slack: bytes that do not matter. A size that varies from run to run has no row within the limit. */
static void compare_memory(lock_report *report, const char *what, const char *key, const json_t *was, const json_t *is,
                           double limit, double slack, bool varies)
{
    const json_t *first = json_object_get(json_object_get(was, "memory"), key),
                 *second = json_object_get(json_object_get(is, "memory"), key);
    const double before = json_number_value(first), after = json_number_value(second);
    char text[2][FORMATTED_BYTES];

    if (!json_is_number(first))
        return;
    (void)format_bytes((uint64_t)fmax(before, 0), text[0]);
    if (!json_is_number(second)) {
        add_row(report, CHANGED, what, text[0], "not measured");
        return;
    }
    add_row(report,
            after > before * limit + slack   ? REGRESSION
            : after < before / limit - slack ? BETTER
            : !varies && after != before     ? CHANGED
                                             : SAME,
            what, text[0], "%s", format_bytes((uint64_t)after, text[1]));
}

static void compare_time(lock_report *report, const json_t *was, const json_t *is, double limit)
{
    const json_t *before = json_object_get(json_object_get(was, "time"), "ratios"),
                 *after = json_object_get(json_object_get(is, "time"), "ratios");
    const double usual = lock_fast_round(before);
    char text[64];

    if (usual <= 0 || json_array_size(after) == 0)
        return;
    report->timed = true;
    (void)snprintf(text, sizeof text, "%.4g of the loop", usual);
    if (strcmp(text_of(json_object_get(was, "made"), "cpu"), text_of(json_object_get(is, "made"), "cpu")) != 0)
        add_row(report, CHANGED, "time of a run", text, "not compared: another processor");
    else
        add_row(report,
                lock_is_slower(before, after, limit)   ? REGRESSION
                : lock_is_faster(before, after, limit) ? BETTER
                                                       : SAME,
                "time of a run", text, "%.4g, %.2f times (limit %.2f)", lock_fast_round(after),
                lock_fast_round(after) / usual, limit);
}

void lock_compare(const json_t *was, const json_t *is, const json_t *explanation, lock_limits limits,
                  lock_report *report)
{
    const json_t *made[] = { json_object_get(was, "made"), json_object_get(is, "made") };

    report->table = (struct table){ .columns = columns, .column_count = COLUMNS };
    compare_texts(report, CHANGED, "inlay", made[0], made[1], "inlay");
    compare_texts(report, CHANGED, "processor", made[0], made[1], "cpu");
    compare_texts(report, CHANGED, "model file", json_object_get(was, "model"), json_object_get(is, "model"), "sha256");
    compare_lists(report, CHANGED, "setting", json_object_get(was, "settings"), json_object_get(is, "settings"), true);
    compare_lists(report, CHANGED, "setting", json_object_get(is, "settings"), json_object_get(was, "settings"), false);
    compare_results(report, was, is, limits.error);
    compare_placement(report, was, is, explanation);
    compare_memory(report, "planned memory", "planned_bytes", was, is, limits.memory, 1 << 16, false);
    compare_memory(report, "memory of constants", "constant_bytes", was, is, limits.memory, 1 << 16, false);
    compare_memory(report, "peak memory", "peak_bytes", was, is, limits.memory, 1 << 20, true);
    compare_time(report, was, is, limits.time);
    compare_lists(report, REGRESSION, "warning", json_object_get(is, "warnings"), json_object_get(was, "warnings"),
                  false);
    compare_lists(report, CHANGED, "warning", json_object_get(was, "warnings"), json_object_get(is, "warnings"), true);
}
