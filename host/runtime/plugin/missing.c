/* plugin/missing.c - the message for an operator that no plugin provides.
 *
 * The reader has a model from another source and a directory of plugins. The message helps with what exists: the
 * nearest domain, the available operators or versions, the directories searched, and the files in them that were not
 * loaded. The most important part comes first, because messages are truncated. */
#include "base/nearest.h"
#include "graph/graph.h"
#include "inlay/check.h"
#include "plugin/plugin.h"
#include "schema.h"
#include <stdio.h>
#include <string.h>

/* A text buffer; text that does not fit is dropped. */
struct message {
    char *text;
    size_t bytes, used;
};

INLAY_PRINTF(2, 3)
static void append(struct message *message, const char *format, ...)
{
    va_list args;
    int length;

    if (message->used >= message->bytes)
        return;
    va_start(args, format);
    length = vsnprintf(message->text + message->used, message->bytes - message->used, format, args);
    va_end(args);
    INLAY_CHECK(message->used < message->bytes);
    message->used += length > 0 ? (size_t)length : 0;
}

static const char *domain_at(const void *ctx, uint32_t i)
{
    const plugin_set *set = ctx;
    uint32_t plugin_count = plugin_set_operator_count(set), tables;

    return i < plugin_count ? plugin_set_operator(set, i)->domain : op_tables(&tables)[i - plugin_count]->domain;
}

/* The operators of one domain. */
typedef struct domain_filter {
    const plugin_set *set;
    const char *domain;
} domain_filter;

static bool in_domain(const domain_filter *domain, uint32_t i)
{
    return strcmp(plugin_set_operator(domain->set, i)->domain, domain->domain) == 0;
}

static const char *operator_at(const void *ctx, uint32_t i)
{
    const domain_filter *domain = ctx;

    return in_domain(domain, i) ? plugin_set_operator(domain->set, i)->op_type : "";
}

/* Writes the versions of an operator, such as "2, 5"; returns the lowest, 0 if there is no version. */
static uint32_t list_versions(const domain_filter *domain, const char *op_type, char *text, size_t bytes)
{
    struct message message = { text, bytes, 0 };
    uint32_t lowest = 0;

    for (uint32_t i = 0; i < plugin_set_operator_count(domain->set); i++) {
        const inlay_operator *op = plugin_set_operator(domain->set, i);

        if (!in_domain(domain, i) || strcmp(op->op_type, op_type) != 0)
            continue;
        append(&message, "%s%u", lowest > 0 ? ", " : "", op->since_version);
        if (lowest == 0 || op->since_version < lowest)
            lowest = op->since_version;
    }
    return lowest;
}

static void append_operators(struct message *message, const domain_filter *domain)
{
    const char *before = "";
    uint32_t listed = 0;

    for (uint32_t i = 0; i < plugin_set_operator_count(domain->set); i++) {
        const char *name = plugin_set_operator(domain->set, i)->op_type;

        if (!in_domain(domain, i) || strcmp(name, before) == 0)
            continue;
        if (listed == 6) {
            append(message, ", ..");
            return;
        }
        append(message, "%s%.64s", listed++ > 0 ? ", " : "", name);
        before = name;
    }
}

static void append_unloaded_files(struct message *message, const plugin_set *set)
{
    const char *first_path = NULL, *name;
    uint32_t count = 0;

    for (uint32_t i = 0; i < plugin_set_file_count(set); i++) {
        const plugin_file *file = plugin_set_file(set, i);

        if (!file->loaded && count++ == 0)
            first_path = file->path;
    }
    if (count == 0)
        return;
    name = strrchr(first_path, '/');
    append(message, " Not loaded: %.64s", name != NULL ? name + 1 : first_path);
    if (count > 1)
        append(message, " and %u more", count - 1);
    append(message, "; see `inlay providers` for the reason.");
}

static void append_unknown_domain(struct message *message, const plugin_set *set, const char *domain,
                                  const char *op_type)
{
    uint32_t tables;
    const char *nearest;

    (void)op_tables(&tables);
    nearest = nearest_name(domain, domain_at, set, plugin_set_operator_count(set) + tables);
    append(message, "no plugin provides operator %.64s of domain '%.96s'", op_type, domain);
    if (nearest != NULL && strcmp(nearest, domain) == 0) { /* a part of that domain is built into the host */
        nearest = op_nearest(domain, op_type);
        if (nearest != NULL)
            append(message, "; did you mean %.64s?", nearest);
        else
            append(message, ".");
    } else if (nearest != NULL)
        append(message, "; did you mean domain '%.96s'?", nearest);
    else
        append(message, ".");
    append_unloaded_files(message, set);
    append(message, " Searched: %s", plugin_set_operators(set)->searched);
}

void plugin_set_missing(void *set, const char *domain, const char *op_type, int64_t opset, char *text, size_t bytes)
{
    const domain_filter filter = { set, domain };
    uint32_t count = plugin_set_operator_count(set), domain_operators = 0, lowest;
    struct message message = { text, bytes, 0 };
    char versions[96];
    const char *nearest;

    for (uint32_t i = 0; i < count; i++)
        domain_operators += in_domain(&filter, i);
    if (domain_operators == 0) {
        append_unknown_domain(&message, set, domain, op_type);
    } else if ((lowest = list_versions(&filter, op_type, versions, sizeof versions)) > 0) {
        append(&message,
               "operator %.64s of domain '%.96s' exists since version %u (%s), but the model imports version %lld",
               op_type, domain, lowest, versions, (long long)opset);
    } else {
        nearest = nearest_name(op_type, operator_at, &filter, count);
        append(&message, "the plugins that provide domain '%.96s' have no operator %.64s", domain, op_type);
        if (nearest != NULL)
            append(&message, "; did you mean %.64s?", nearest);
        append(&message, "%s", nearest != NULL ? " (They have: " : "; they have: ");
        append_operators(&message, &filter);
        append(&message, "%s", nearest != NULL ? ")" : "");
    }
}
