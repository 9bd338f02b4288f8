/* plugin/missing.c - the sentence for an operator that no plugin brings.
 *
 * The reader has a model from somewhere and a directory of plugins; what helps is what is there instead: the domain
 * that was meant, the operators or versions that there are, the directories that were searched, and the files in them
 * that fell by the wayside. What matters most stands first, since messages are cut to fit. */
#include "base/nearest.h"
#include "plugin/plugin.h"
#include "schema.h"
#include <stdio.h>
#include <string.h>

/* Text that grows until it is full. */
struct sentence {
    char *text;
    size_t bytes, used;
};

INLAY_PRINTF(2, 3)
static void say(struct sentence *sentence, const char *format, ...)
{
    va_list args;
    int n;

    if (sentence->used >= sentence->bytes)
        return;
    va_start(args, format);
    n = vsnprintf(sentence->text + sentence->used, sentence->bytes - sentence->used, format, args);
    va_end(args);
    sentence->used += n > 0 ? (size_t)n : 0;
}

/* ------------------------------------------------------------------ names to choose from */

static const char *domain_at(const void *ctx, uint32_t i)
{
    const plugin_set *set = ctx;
    uint32_t own = plugin_set_operator_count(set), tables;

    return i < own ? plugin_set_operator(set, i)->domain : op_tables(&tables)[i - own]->domain;
}

/* The operators of one domain. */
typedef struct of_domain {
    const plugin_set *set;
    const char *domain;
} of_domain;

static bool in_domain(const of_domain *domain, uint32_t i)
{
    return strcmp(plugin_set_operator(domain->set, i)->domain, domain->domain) == 0;
}

static const char *operator_at(const void *ctx, uint32_t i)
{
    const of_domain *domain = ctx;

    return in_domain(domain, i) ? plugin_set_operator(domain->set, i)->op_type : "";
}

/* ------------------------------------------------------------------ the three cases */

/* "2, 5": the versions of an operator that there are; returns the lowest, 0 if there are none. */
static uint32_t list_versions(const of_domain *domain, const char *op_type, char *text, size_t bytes)
{
    struct sentence sentence = { text, bytes, 0 };
    uint32_t lowest = 0;

    for (uint32_t i = 0; i < plugin_set_operator_count(domain->set); i++) {
        const inlay_operator *op = plugin_set_operator(domain->set, i);

        if (!in_domain(domain, i) || strcmp(op->op_type, op_type) != 0)
            continue;
        say(&sentence, "%s%u", lowest > 0 ? ", " : "", op->since_version);
        if (lowest == 0 || op->since_version < lowest)
            lowest = op->since_version;
    }
    return lowest;
}

static void say_operators(struct sentence *sentence, const of_domain *domain)
{
    const char *before = "";
    uint32_t listed = 0;

    for (uint32_t i = 0; i < plugin_set_operator_count(domain->set); i++) {
        const char *name = plugin_set_operator(domain->set, i)->op_type;

        if (!in_domain(domain, i) || strcmp(name, before) == 0)
            continue;
        if (listed == 6) {
            say(sentence, ", ..");
            return;
        }
        say(sentence, "%s%.64s", listed++ > 0 ? ", " : "", name);
        before = name;
    }
}

static void say_not_loaded(struct sentence *sentence, const plugin_set *set)
{
    const char *first = NULL, *name;
    uint32_t count = 0;

    for (uint32_t i = 0; i < plugin_set_file_count(set); i++) {
        const plugin_file *file = plugin_set_file(set, i);

        if (!file->loaded && count++ == 0)
            first = file->path;
    }
    if (count == 0)
        return;
    name = strrchr(first, '/');
    say(sentence, " Not loaded: %.64s", name != NULL ? name + 1 : first);
    if (count > 1)
        say(sentence, " and %u more", count - 1);
    say(sentence, ", `inlay providers` says why.");
}

static void say_domain(struct sentence *sentence, const plugin_set *set, const char *domain, const char *op_type)
{
    uint32_t tables;
    const char *nearest;

    (void)op_tables(&tables);
    nearest = nearest_name(domain, domain_at, set, plugin_set_operator_count(set) + tables);
    say(sentence, "no plugin brings operator %.64s of domain '%.96s'", op_type, domain);
    if (nearest != NULL && strcmp(nearest, domain) == 0) { /* some of that domain are the host's own */
        nearest = op_nearest(domain, op_type);
        if (nearest != NULL)
            say(sentence, "; did you mean %.64s?", nearest);
        else
            say(sentence, ".");
    } else if (nearest != NULL)
        say(sentence, "; did you mean domain '%.96s'?", nearest);
    else
        say(sentence, ".");
    say_not_loaded(sentence, set);
    say(sentence, " Searched: %s", plugin_set_operators(set)->searched);
}

void plugin_set_missing(void *set, const char *domain, const char *op_type, int64_t opset, char *text, size_t bytes)
{
    const of_domain d = { set, domain };
    uint32_t count = plugin_set_operator_count(set), here = 0, lowest;
    struct sentence sentence = { text, bytes, 0 };
    char versions[96];
    const char *nearest;

    for (uint32_t i = 0; i < count; i++)
        here += in_domain(&d, i);
    if (here == 0) {
        say_domain(&sentence, set, domain, op_type);
    } else if ((lowest = list_versions(&d, op_type, versions, sizeof versions)) > 0) {
        say(&sentence,
            "operator %.64s of domain '%.96s' is there from version %u on (%s), but the model imports version %lld",
            op_type, domain, lowest, versions, (long long)opset);
    } else {
        nearest = nearest_name(op_type, operator_at, &d, count);
        say(&sentence, "the plugins that bring domain '%.96s' have no operator %.64s", domain, op_type);
        if (nearest != NULL)
            say(&sentence, "; did you mean %.64s?", nearest);
        say(&sentence, "%s", nearest != NULL ? " (They have: " : "; they have: ");
        say_operators(&sentence, &d);
        say(&sentence, "%s", nearest != NULL ? ")" : "");
    }
}
