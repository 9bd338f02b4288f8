/* Arrays and objects. */
#include "texts/grammar/schema_internal.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum {
    MAX_LISTED = 200,
    MAX_SUBSETS = 8,
    MAX_COUNTED = 200,
    MAX_NAMES = 5000,
    MAX_CONTAINS = 4,
    MAX_TALLIES = 1000,
    MAX_BEYOND = 8
};

static grammar_node with_comma(const schema_reader *reader, grammar_node node)
{
    return schema_join(reader, schema_words(reader, ","), schema_join(reader, schema_blank(reader), node));
}

static grammar_node in_brackets(const schema_reader *reader, const char *open, grammar_node inner, const char *close)
{
    return schema_join(
        reader, schema_words(reader, open),
        schema_join(
            reader, schema_blank(reader),
            schema_join(reader, inner, schema_join(reader, schema_blank(reader), schema_words(reader, close)))));
}

/* A schema of `contains`, and how many items match it. */
typedef struct array_contains {
    json_t *schema;
    uint32_t least, most; /* most: GRAMMAR_MANY without maxContains */
} array_contains;

/* What arrays have to be. */
typedef struct array_form {
    const schema_list *list;
    uint32_t least, most, fixed; /* items; those with a schema of their own */
    array_contains contains[MAX_CONTAINS];
    uint32_t contains_count;
    uint32_t tallies;    /* states of the numbers of items that match each one, see count_item() */
    grammar_node *items; /* [(fixed + 1) << contains_count] each item, and the last for all further ones, for each set
                            of `contains` that it is counted for */
} array_form;

/* Adds the schemas of the item at an index; all items after the fixed ones have one form. */
static bool add_item_schemas(schema_reader *reader, const array_form *form, uint32_t index, schema_list *list)
{
    bool *describes = calloc(form->list->count + 1u, sizeof *describes), described, good = describes != NULL;

    for (uint32_t i = 0; good && i < form->list->count; i++) {
        json_t *part = form->list->parts[i], *items = json_object_get(part, "items");
        json_t *prefix = json_is_array(items) ? items : json_object_get(part, "prefixItems"), *own;

        if (json_is_array(items))
            items = json_object_get(part, "additionalItems");
        own = index < json_array_size(prefix) ? json_array_get(prefix, index) : items;
        describes[i] = own != NULL;
        good = schema_add(reader, list, own);
    }
    for (uint32_t i = 0; good && i < form->list->count; i++) {
        json_t *others = json_object_get(form->list->parts[i], "unevaluatedItems");

        if (others == NULL)
            continue;
        good = schema_described(reader, form->list, form->list->parts[i], "unevaluatedItems", describes, &described);
        if (good && !described && form->contains_count > 0 && !json_is_true(others))
            good = schema_fail(reader, "unevaluatedItems", "not supported with contains");
        good = good && (described || schema_add(reader, list, others));
    }
    free(describes);
    return good || schema_fail(reader, "items", "out of memory");
}

/* The item at an index that is counted for a set of `contains`. If the number of items that match one of the others is
 * bounded, the item does not match it. */
static bool read_item(schema_reader *reader, const array_form *form, uint32_t index, uint32_t set, grammar_node *out)
{
    schema_list list = { .count = 0 };
    bool good = true;

    for (uint32_t i = 0; good && i < form->contains_count; i++) {
        const array_contains *contains = &form->contains[i];
        json_t *schema = contains->schema;

        if ((set >> i & 1) == 0)
            schema = contains->most == GRAMMAR_MANY ? json_true() : schema_not(reader, schema);
        good = schema != NULL && schema_add(reader, &list, schema);
    }
    good = good && add_item_schemas(reader, form, index, &list) && reader->make_value(reader, &list, out);
    free(list.parts);
    return good;
}

static bool add_contains(const schema_reader *reader, array_form *form, json_t *part)
{
    array_contains added = { .schema = json_object_get(part, "contains"), .least = 1, .most = GRAMMAR_MANY };
    const schema_list list = { &part, 1 };
    uint32_t states;

    if (added.schema == NULL)
        return true;
    if (form->contains_count == MAX_CONTAINS)
        return schema_fail(reader, "contains", "more than 4 for one array");
    if (!schema_count(reader, &list, "minContains", true, &added.least) ||
        !schema_count(reader, &list, "maxContains", false, &added.most))
        return false;
    form->contains[form->contains_count++] = added;
    states = (added.most == GRAMMAR_MANY ? added.least : added.most) + 1;
    if (states > MAX_TALLIES / form->tallies)
        return schema_fail(reader, "contains", "more than 1,000 combinations of the numbers of items that match");
    form->tallies *= states;
    return true;
}

static bool read_array(schema_reader *reader, const schema_list *list, array_form *form)
{
    *form = (array_form){ .list = list, .most = GRAMMAR_MANY, .tallies = 1 };
    if (!schema_count(reader, list, "minItems", true, &form->least) ||
        !schema_count(reader, list, "maxItems", false, &form->most))
        return false;
    for (uint32_t i = 0; i < list->count; i++) {
        json_t *part = list->parts[i], *items = json_object_get(part, "items");
        const size_t fixed = json_array_size(json_is_array(items) ? items : json_object_get(part, "prefixItems"));

        if (fixed > MAX_LISTED)
            return schema_fail(reader, "prefixItems", "more than 200");
        if (fixed > form->fixed)
            form->fixed = (uint32_t)fixed;
        if (!add_contains(reader, form, part))
            return false;
    }
    return true;
}

/* The expressions of the items from an index on, after numbers of items that match each `contains`. */
typedef struct array_walk {
    schema_reader *reader;
    const array_form *form;
    grammar_node *made; /* [(last + 1) * tallies] */
    bool loops;         /* any number of items may follow from `last` on; else none follows it */
    uint32_t last;
} array_walk;

/* A tally is the numbers of items so far that match each `contains`, as the digits of a number. Without maxContains
 * they are counted up to minContains. Sets *tally to the one after an item that is counted for the set. false: one of
 * the set has enough items. */
static bool count_item(const array_form *form, uint32_t set, uint32_t *tally)
{
    const uint32_t before = *tally;
    uint32_t place = 1;

    for (uint32_t i = 0; i < form->contains_count; i++) {
        const array_contains *contains = &form->contains[i];
        const uint32_t enough = contains->most == GRAMMAR_MANY ? contains->least : contains->most;

        if ((set >> i & 1) != 0 && before / place % (enough + 1) == enough)
            return false;
        *tally += (set >> i & 1) != 0 ? place : 0;
        place *= enough + 1;
    }
    return true;
}

static bool has_least(const array_form *form, uint32_t tally)
{
    for (uint32_t i = 0; i < form->contains_count; i++) {
        const array_contains *contains = &form->contains[i];
        const uint32_t states = (contains->most == GRAMMAR_MANY ? contains->least : contains->most) + 1;

        if (tally % states < contains->least)
            return false;
        tally /= states;
    }
    return true;
}

/* The items from `index` on, after the items of a tally. Those that may follow are made already. */
static grammar_node walk_items(const array_walk *walk, uint32_t index, uint32_t tally)
{
    const array_form *form = walk->form;
    const schema_reader *reader = walk->reader;
    const uint32_t which = index < form->fixed ? index : form->fixed;
    const bool may_end = index >= form->least && has_least(form, tally), loops = walk->loops && index == walk->last;
    grammar_node all = may_end ? grammar_empty(reader->grammar) : grammar_never(reader->grammar), rest;
    uint32_t rule;

    if (index >= form->most) /* more items have a schema than there may be */
        return all;
    rule = grammar_rule(reader->grammar);
    for (uint32_t set = 1u << form->contains_count; set-- > 0;) {
        const grammar_node one = form->items[(which << form->contains_count) + set];
        uint32_t next = tally;

        if (grammar_is_never(reader->grammar, one) || !count_item(form, set, &next))
            continue;
        if (loops && next == tally && grammar_is_never(reader->grammar, all))
            continue; /* it would never end */
        rest = loops && next == tally ? grammar_refer(reader->grammar, rule)
                                      : walk->made[(loops ? index : index + 1) * form->tallies + next];
        all = schema_either(reader, all, schema_join(reader, index > 0 ? with_comma(reader, one) : one, rest));
    }
    grammar_define(reader->grammar, rule, all);
    return grammar_is_never(reader->grammar, all) ? all : grammar_refer(reader->grammar, rule);
}

/* Arrays whose items are counted one by one. */
static bool counted_array(schema_reader *reader, array_form *form, grammar_node *out)
{
    array_walk walk = { .reader = reader, .form = form, .loops = form->most == GRAMMAR_MANY };
    uint32_t last = form->least > form->fixed ? form->least : form->fixed;
    bool good = true;

    if (form->most != GRAMMAR_MANY && form->most > last)
        last = form->most;
    last += form->most == GRAMMAR_MANY && last == 0; /* the first item has no comma */
    if (last > MAX_LISTED || form->tallies > MAX_TALLIES / (last + 1))
        return schema_fail(reader, "contains", "more than 200 items, or than 1,000 combinations of their numbers");
    walk.last = last;
    walk.made = calloc((size_t)(last + 1) * form->tallies, sizeof *walk.made);
    good = walk.made != NULL;
    for (uint32_t at = (last + 1) * form->tallies; good && at-- > 0;)
        walk.made[at] = walk_items(&walk, at / form->tallies, at % form->tallies);
    if (good)
        *out = in_brackets(reader, "[", walk.made[0], "]");
    free(walk.made);
    return good || schema_fail(reader, "items", "out of memory");
}

/* A named member of objects. */
typedef struct object_member {
    const char *name;
    grammar_node node; /* the name and its values; never: it must be missing */
    bool required;
    uint32_t beyond; /* the schemas of object_form.beyond that do not describe it, as bits */
} object_member;

typedef struct object_form {
    schema_reader *reader;
    const schema_list *list;
    object_member *members; /* [count] */
    uint32_t count;
    uint32_t least, most;       /* members */
    uint32_t counted;           /* numbers of members are counted up to this one */
    grammar_node others;        /* members of other names; never: there can be none */
    grammar_node others_beyond; /* those that no schema of `beyond` describes */
    json_t *beyond[MAX_BEYOND]; /* [beyond_count] schemas of SCHEMA_BEYOND_NAME: each needs a member */
    uint32_t beyond_count;
    grammar_node *made; /* [((count + 1) * (counted + 1)) << beyond_count] the members from one on, after a number of
                           them, which meet a set of `beyond` */
    json_t *places;     /* of the names in `members` */
} object_form;

/* Adds the schemas of a part for a member. *described: there are some, apart from unevaluatedProperties. */
static bool add_member_schemas(schema_reader *reader, json_t *part, const char *name, schema_list *list,
                               bool *described)
{
    json_t *own = json_object_get(json_object_get(part, "properties"), name), *one;
    json_t *names = json_object_get(part, "propertyNames"), *text = NULL;
    bool found = own != NULL, fits = true, good = schema_add(reader, list, own);
    const char *pattern;

    json_object_foreach(json_object_get(part, "patternProperties"), pattern, one) {
        good = good && schema_matches(reader, pattern, true, name, strlen(name), &fits) &&
               (!fits || schema_add(reader, list, one));
        found |= good && fits;
    }
    if (good && !found) {
        good = schema_add(reader, list, json_object_get(part, "additionalProperties"));
        found = json_object_get(part, "additionalProperties") != NULL;
    }
    *described = found;
    if (!good || names == NULL)
        return good;
    text = json_string(name);
    good = text != NULL && schema_check(reader, names, text, &fits) && (fits || schema_add(reader, list, json_false()));
    json_decref(text);
    return good;
}

static bool read_member(object_form *form, object_member *member)
{
    schema_reader *reader = form->reader;
    schema_list list = { .count = 0 };
    json_t *text = json_string(member->name);
    bool *describes = calloc(form->list->count + 1u, sizeof *describes), described;
    bool good = text != NULL && describes != NULL;
    grammar_node value = 0;

    for (uint32_t i = 0; good && i < form->list->count; i++)
        good = add_member_schemas(reader, form->list->parts[i], member->name, &list, &describes[i]);
    for (uint32_t i = 0; good && i < form->list->count; i++) {
        json_t *others = json_object_get(form->list->parts[i], "unevaluatedProperties");

        if (others == NULL)
            continue;
        good = schema_described(reader, form->list, form->list->parts[i], "unevaluatedProperties", describes,
                                &described) &&
               (described || schema_add(reader, &list, others));
    }
    good = good && reader->make_value(reader, &list, &value);
    if (good)
        member->node =
            grammar_share(reader->grammar, schema_join(reader, schema_literal(reader, text),
                                                       schema_join(reader, schema_words(reader, ":"),
                                                                   schema_join(reader, schema_blank(reader), value))));
    json_decref(text);
    free(describes);
    free(list.parts);
    return good || schema_fail(reader, "properties", "out of memory");
}

/* Finds which members meet each schema of SCHEMA_BEYOND_NAME. One that a required member meets has no effect. */
static bool read_beyond(object_form *form)
{
    for (uint32_t i = 0; i < form->list->count; i++) {
        json_t *schema = json_object_get(form->list->parts[i], SCHEMA_BEYOND_NAME);
        bool is_met = schema == NULL, described;
        uint32_t bit = 1u << form->beyond_count;

        for (uint32_t k = 0; schema != NULL && k < form->count; k++) {
            object_member *member = &form->members[k];

            if (!schema_spend(form->reader, 1) || !schema_describes(form->reader, schema, member->name, &described))
                return false;
            member->beyond = (member->beyond & (bit - 1)) | (described ? 0 : bit);
            is_met |= member->required && !described;
        }
        if (is_met)
            continue;
        if (form->beyond_count == MAX_BEYOND)
            return schema_fail(form->reader, "additionalProperties", "false in more than 8 overlapping schemas");
        form->beyond[form->beyond_count++] = schema;
    }
    for (uint32_t k = 0; k < form->count; k++)
        form->members[k].beyond &= (1u << form->beyond_count) - 1;
    return true;
}

static bool add_name(object_form *form, const char *name, bool required)
{
    const json_t *place = json_object_get(form->places, name);

    if (place != NULL) {
        form->members[json_integer_value(place)].required |= required;
        return true;
    }
    if (form->count == MAX_NAMES)
        return schema_fail(form->reader, "properties", "more than 5000");
    if (!schema_spend(form->reader, 16) || !LIST_GROW(form->members, form->count) ||
        json_object_set_new(form->places, name, json_integer(form->count)) != 0)
        return schema_fail(form->reader, "properties", "out of memory");
    form->members[form->count++] = (object_member){ .name = name, .required = required };
    return true;
}

/* Whether a schema of the list describes members that it does not name. */
static bool describes_others(const schema_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (json_object_size(json_object_get(list->parts[i], "additionalProperties")) > 0 ||
            json_object_size(json_object_get(list->parts[i], "patternProperties")) > 0)
            return true;
    return false;
}

/* Adds the names that the keywords list, in their order. */
static bool add_names(object_form *form)
{
    const bool has_others = describes_others(form->list);
    bool good = true;
    const char *name;
    json_t *one;

    for (uint32_t i = 0; good && i < form->list->count; i++) {
        json_t *part = form->list->parts[i], *names = json_object_get(json_object_get(part, "propertyNames"), "enum");

        json_object_foreach(json_object_get(part, "properties"), name, one) {
            good = good && add_name(form, name, false);
        }
        for (size_t k = 0; good && k < json_array_size(names); k++)
            if (json_is_string(json_array_get(names, k)))
                good = add_name(form, json_string_value(json_array_get(names, k)), false);
    }
    for (uint32_t i = 0; good && i < form->list->count; i++) {
        json_t *required = json_object_get(form->list->parts[i], "required");

        for (size_t k = 0; good && k < json_array_size(required); k++)
            if (json_is_string(json_array_get(required, k)))
                good = add_name(form, json_string_value(json_array_get(required, k)), true);
    }
    for (uint32_t i = 0; has_others && i < form->list->count; i++) {
        json_t *beyond = json_object_get(form->list->parts[i], SCHEMA_BEYOND_NAME);

        json_object_foreach(json_object_get(beyond, "properties"), name, one) {
            good = good && add_name(form, name, false);
        }
    }
    return good;
}

/* Adds the members whose names match `pattern` (NULL: none of the patterns) and none of the other patterns to *out.
 * is_beyond: and which no schema of form->beyond describes. */
static bool add_others(object_form *form, const json_t *patterns, const char *pattern, bool is_beyond,
                       grammar_node *out)
{
    schema_reader *reader = form->reader;
    json_t *taken = json_array(), *rules = json_pack("[{s:s}]", "type", "string"), *text = NULL, *one;
    schema_list values = { .count = 0 }, names = { .count = 0 };
    grammar_node name = 0, value = 0;
    bool good = taken != NULL && rules != NULL && schema_take(reader, form->count + 2 * json_object_size(patterns));
    const char *other;

    for (uint32_t i = 0; good && i < form->count; i++)
        (void)json_array_append_new(taken, json_string(form->members[i].name));
    for (uint32_t i = 0; good && is_beyond && i < form->beyond_count; i++) {
        good = schema_take(reader, json_object_size(json_object_get(form->beyond[i], "properties")));
        json_object_foreach(json_object_get(form->beyond[i], "properties"), other, one) {
            (void)json_array_append_new(taken, json_string(other));
        }
        json_object_foreach(json_object_get(form->beyond[i], "patternProperties"), other, one) {
            (void)json_array_append_new(rules, json_pack("{s:{s:s}}", "not", "pattern", other));
        }
    }
    if (json_array_size(taken) > 0)
        (void)json_array_append_new(rules, json_pack("{s:{s:O}}", "not", "enum", taken));
    json_object_foreach((json_t *)(uintptr_t)patterns, other, one) {
        (void)json_array_append_new(rules, pattern != NULL && strcmp(other, pattern) == 0
                                               ? json_pack("{s:s}", "pattern", other)
                                               : json_pack("{s:{s:s}}", "not", "pattern", other));
    }
    for (uint32_t i = 0; good && i < form->list->count; i++) {
        json_t *part = form->list->parts[i];
        json_t *own = pattern != NULL ? json_object_get(json_object_get(part, "patternProperties"), pattern) : NULL;

        good = schema_add(reader, &values, own != NULL ? own : json_object_get(part, "additionalProperties")) &&
               schema_add(reader, &names, json_object_get(part, "propertyNames"));
    }
    if (reader->made == NULL)
        reader->made = json_array();
    text = json_pack("{s:O}", "allOf", rules);
    good = good && text != NULL && json_array_append(reader->made, text) == 0 && schema_add(reader, &names, text) &&
           reader->make_value(reader, &values, &value) && reader->make_value(reader, &names, &name);
    if (good)
        *out = schema_either(reader, *out,
                             schema_join(reader, name,
                                         schema_join(reader, schema_words(reader, ":"),
                                                     schema_join(reader, schema_blank(reader), value))));
    json_decref(text);
    json_decref(taken);
    json_decref(rules);
    free(values.parts);
    free(names.parts);
    return good;
}

static bool all_others(object_form *form, json_t *patterns, bool is_beyond, grammar_node *out)
{
    bool good = true;
    const char *pattern;
    json_t *one;

    json_object_foreach(patterns, pattern, one) {
        good = good && add_others(form, patterns, pattern, is_beyond, out);
    }
    good = good && add_others(form, patterns, NULL, is_beyond, out);
    *out = grammar_share(form->reader->grammar, *out);
    return good;
}

/* Whether the named members meet every schema of SCHEMA_BEYOND_NAME. */
static bool are_beyond(const object_form *form)
{
    uint32_t met = 0;

    for (uint32_t i = 0; i < form->count; i++)
        if (!grammar_is_never(form->reader->grammar, form->members[i].node))
            met |= form->members[i].beyond;
    return (met + 1) >> form->beyond_count == 1;
}

/* Reads which members are permitted besides the named ones. If there are named members, others are written only if a
 * schema describes them, or if the minimum number of members or SCHEMA_BEYOND_NAME requires them. */
static bool read_others(object_form *form)
{
    json_t *patterns = json_object();
    bool listed = false, good = patterns != NULL;

    for (uint32_t i = 0; good && i < form->list->count; i++) {
        json_t *part = form->list->parts[i], *others = json_object_get(part, "additionalProperties");

        (void)json_object_update(patterns, json_object_get(part, "patternProperties"));
        listed |= json_object_get(json_object_get(part, "propertyNames"), "enum") != NULL ||
                  (json_object_get(part, "properties") != NULL && form->count == 0 && others == NULL &&
                   form->beyond_count == 0) ||
                  json_object_get(part, "unevaluatedProperties") != NULL;
    }
    form->others = form->others_beyond = grammar_never(form->reader->grammar);
    if (good && !listed &&
        (form->count == 0 || describes_others(form->list) || !are_beyond(form) || form->least > form->count)) {
        good = all_others(form, patterns, false, &form->others) &&
               (form->beyond_count == 0 || all_others(form, patterns, true, &form->others_beyond));
    }
    json_decref(patterns);
    return good;
}

/* Members of other names, after `count` members that meet the set `met` of form->beyond. */
static grammar_node walk_others(const object_form *form, uint32_t count, uint32_t met)
{
    const schema_reader *reader = form->reader;
    const bool is_full = form->most != GRAMMAR_MANY && count >= form->most;
    const bool is_met = (met + 1) >> form->beyond_count == 1, may_end = count >= form->least && is_met;
    const uint32_t more = form->most == GRAMMAR_MANY ? GRAMMAR_MANY : is_full ? 0 : form->most - count - 1;
    const grammar_node first = is_met ? form->others : form->others_beyond;
    grammar_node some = may_end ? grammar_empty(reader->grammar) : grammar_never(reader->grammar);

    /* Several of them may have the same name and be one member, so that they are sure to add only one. */
    if (is_full || grammar_is_never(reader->grammar, first) || count + 1 < form->least)
        return some;
    return schema_either(reader, some,
                         schema_join(reader, count > 0 ? with_comma(reader, first) : first,
                                     grammar_repeat(reader->grammar, with_comma(reader, form->others), 0, more)));
}

/* The place in form->made of the members from `index` on, after `count` members that meet the set `met`. */
static size_t place_of(const object_form *form, uint32_t index, uint32_t count, uint32_t met)
{
    return ((size_t)index * (form->counted + 1) + count) << form->beyond_count | met;
}

/* The members at a place. Those that may follow are made already. */
static grammar_node walk_members(const object_form *form, uint32_t index, uint32_t count, uint32_t met)
{
    const schema_reader *reader = form->reader;
    const object_member *member = &form->members[index];
    grammar_node all = grammar_never(reader->grammar);

    if (index == form->count)
        return walk_others(form, count, met);
    if (!grammar_is_never(reader->grammar, member->node) && count < form->most)
        all = schema_join(
            reader, count > 0 ? with_comma(reader, member->node) : member->node,
            form->made[place_of(form, index + 1, count < form->counted ? count + 1 : count, met | member->beyond)]);
    return member->required ? all : schema_either(reader, all, form->made[place_of(form, index + 1, count, met)]);
}

/* The members in their order. They are counted as far as a bound depends on it. */
static bool write_members(object_form *form, const char *keyword, const char *open, const char *close,
                          grammar_node *out)
{
    const uint32_t named = form->count;
    const bool has_most =
        form->most < named || (form->most != GRAMMAR_MANY && !grammar_is_never(form->reader->grammar, form->others));
    uint32_t needed = 0, lowest; /* members that are required, those before a member */

    form->counted = has_most || form->least > named ? named : form->least;
    form->counted += form->counted == 0; /* whether there is a member */
    if (form->counted > MAX_COUNTED)
        return schema_fail(form->reader, keyword, "supported for at most 200 of them");
    form->made = calloc(place_of(form, named + 1, 0, 0), sizeof *form->made);
    if (form->made == NULL)
        return schema_fail(form->reader, keyword, "out of memory");
    for (uint32_t i = 0; i < named; i++)
        needed += form->members[i].required;
    for (uint32_t index = named + 1; index-- > 0 && schema_spend(form->reader, 1);) {
        needed -= index < named && form->members[index].required;
        lowest = needed < form->counted ? needed : form->counted;
        for (uint32_t count = lowest; count <= index && count <= form->counted; count++)
            for (uint32_t met = 0; met >> form->beyond_count == 0; met++)
                form->made[place_of(form, index, count, met)] =
                    grammar_share(form->reader->grammar, walk_members(form, index, count, met));
    }
    *out = in_brackets(form->reader, open, form->made[0], close);
    free(form->made);
    return !grammar_has_ended(form->reader->grammar, NULL) || schema_fail(form->reader, keyword, "");
}

bool schema_objects(schema_reader *reader, const schema_list *list, grammar_node *out)
{
    object_form form = { .reader = reader, .list = list, .most = GRAMMAR_MANY, .places = json_object() };
    bool good = schema_count(reader, list, "minProperties", true, &form.least) &&
                schema_count(reader, list, "maxProperties", false, &form.most) && add_names(&form);

    *out = grammar_never(reader->grammar);
    for (uint32_t i = 0; good && i < form.count; i++)
        good = read_member(&form, &form.members[i]);
    good = good && read_beyond(&form) && read_others(&form) &&
           (form.most < form.least || write_members(&form, "minProperties", "{", "}", out));
    if (good && grammar_is_never(reader->grammar, *out) && form.least > form.count + 1)
        good = schema_fail(reader, "minProperties", "more than one property that the schema does not name");
    free(form.members);
    json_decref(form.places);
    return good;
}

/* The members that may follow when those in the set `used` have been written, for each set. */
static grammar_node walk_sets(const object_form *form)
{
    const schema_reader *reader = form->reader;
    grammar_node made[1 << MAX_SUBSETS] = { 0 };

    for (uint32_t used = 1u << form->count; used-- > 0;) {
        uint32_t count = 0;
        grammar_node all;

        for (uint32_t i = 0; i < form->count; i++)
            count += used >> i & 1;
        all = count >= form->least ? grammar_empty(reader->grammar) : grammar_never(reader->grammar);
        for (uint32_t i = 0; count < form->most && i < form->count; i++) {
            const grammar_node one = form->members[i].node;

            if ((used >> i & 1) == 0)
                all = schema_either(
                    reader, all, schema_join(reader, count > 0 ? with_comma(reader, one) : one, made[used | 1u << i]));
        }
        made[used] = grammar_share(reader->grammar, all);
    }
    return made[0];
}

/* Arrays of different items: few values in any order, many in theirs. */
static bool unique_array(schema_reader *reader, const array_form *form, grammar_node *out)
{
    object_form ordered = { .reader = reader, .least = form->least, .most = form->most };
    schema_list list = { .count = 0 };
    object_member values[MAX_LISTED];
    json_t *listed = NULL;
    bool good = form->fixed == 0 && form->contains_count == 0;

    good = good && add_item_schemas(reader, form, 0, &list);
    if (good)
        listed = reader->list_values(reader, &list);
    free(list.parts);
    if (listed == NULL || json_array_size(listed) > MAX_LISTED) {
        json_decref(listed);
        return schema_fail(reader, "uniqueItems", "supported for at most one item, or items of enum, const or boolean");
    }
    for (; ordered.count < json_array_size(listed); ordered.count++)
        values[ordered.count] =
            (object_member){ .node = schema_literal(reader, json_array_get(listed, ordered.count)) };
    json_decref(listed);
    ordered.members = values;
    ordered.others = grammar_never(reader->grammar);
    if (ordered.count > MAX_SUBSETS)
        return write_members(&ordered, "uniqueItems", "[", "]", out);
    *out = in_brackets(reader, "[", walk_sets(&ordered), "]");
    return true;
}

bool schema_arrays(schema_reader *reader, const schema_list *list, grammar_node *out)
{
    array_form form;
    bool unique = false, good;

    if (!read_array(reader, list, &form))
        return false;
    *out = grammar_never(reader->grammar);
    if (form.least < form.fixed) /* clients that name the first items expect all of them */
        form.least = form.fixed < form.most ? form.fixed : form.most;
    if (form.most < form.least)
        return true;
    for (uint32_t i = 0; i < list->count; i++)
        unique |= json_is_true(json_object_get(list->parts[i], "uniqueItems"));
    if (unique && form.most > 1)
        return unique_array(reader, &form, out);
    form.items = calloc(((size_t)form.fixed + 1) << form.contains_count, sizeof *form.items);
    good = form.items != NULL;
    for (uint32_t i = 0; good && i < (form.fixed + 1) << form.contains_count; i++) {
        good =
            read_item(reader, &form, i >> form.contains_count, i & ((1u << form.contains_count) - 1), &form.items[i]);
        if (good && (form.fixed > 0 || form.contains_count > 0))
            form.items[i] = grammar_share(reader->grammar, form.items[i]);
    }
    if (good && form.fixed == 0 && form.contains_count == 0)
        *out = schema_list_of(reader, "[", form.items[0], "]", form.least, form.most);
    else
        good = good && counted_array(reader, &form, out);
    free(form.items);
    return good || schema_fail(reader, "items", "out of memory");
}
