/* Arrays and objects. */
#include "texts/grammar/schema_internal.h"
#include "texts/grammar/grammar_regex.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_LISTED = 200, MAX_SUBSETS = 8, MAX_COUNTED = 100, MAX_NAMES = 5000 };

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

/* What arrays have to be. */
typedef struct array_form {
    const schema_list *list;
    uint32_t least, most, fixed; /* items; those with a schema of their own */
    json_t *contains;            /* NULL: none */
    uint32_t wanted;             /* items that match it, at least */
    grammar_node *items; /* [2 * (fixed + 1)] each item, and the last for all further ones; then those that match
                                    `contains`, too */
} array_form;

/* The item at an index; all items after the fixed ones have one form. also: a further schema, NULL: none. */
static bool read_item(schema_reader *reader, const array_form *form, uint32_t index, json_t *also, grammar_node *out)
{
    schema_list list = { .count = 0 };
    bool good = schema_add(reader, &list, also);

    for (uint32_t i = 0; good && i < form->list->count; i++) {
        json_t *part = form->list->parts[i], *items = json_object_get(part, "items");
        json_t *prefix = json_is_array(items) ? items : json_object_get(part, "prefixItems");

        if (json_is_array(items))
            items = json_object_get(part, "additionalItems");
        good = schema_add(reader, &list, index < json_array_size(prefix) ? json_array_get(prefix, index) : items);
    }
    good = good && reader->make_value(reader, &list, out);
    free(list.parts);
    return good;
}

static bool read_array(schema_reader *reader, const schema_list *list, array_form *form)
{
    *form = (array_form){ .list = list, .most = GRAMMAR_MANY };
    if (!schema_count(reader, list, "minItems", true, &form->least) ||
        !schema_count(reader, list, "maxItems", false, &form->most))
        return false;
    for (uint32_t i = 0; i < list->count; i++) {
        json_t *part = list->parts[i], *items = json_object_get(part, "items");
        json_t *contains = json_object_get(part, "contains");
        const size_t fixed = json_array_size(json_is_array(items) ? items : json_object_get(part, "prefixItems"));

        if (fixed > MAX_LISTED)
            return schema_fail(reader, "prefixItems", "more than 200");
        if (fixed > form->fixed)
            form->fixed = (uint32_t)fixed;
        if (contains == NULL)
            continue;
        if (form->contains != NULL || json_object_get(part, "maxContains") != NULL)
            return schema_fail(reader, "contains", "supported at most once, and not with maxContains");
        form->contains = contains;
        form->wanted = 1;
        if (!schema_count(reader, &(schema_list){ &part, 1 }, "minContains", true, &form->wanted))
            return false;
    }
    return true;
}

/* The items from `index` on, of which `found` match `contains` so far. `made` remembers expressions, so that none is
 * built twice. */
typedef struct array_walk {
    schema_reader *reader;
    const array_form *form;
    grammar_node *made; /* [(last + 1) * (wanted + 1)], 0: not yet */
    uint32_t last;      /* from here on, all items have the same form, or no item may follow */
} array_walk;

static grammar_node walk_items(array_walk *walk, uint32_t index, uint32_t found)
{
    const array_form *form = walk->form;
    const schema_reader *reader = walk->reader;
    grammar_node *made = &walk->made[index * (form->wanted + 1) + found];
    const uint32_t which = index < form->fixed ? index : form->fixed;
    const bool may_end = index >= form->least && found == form->wanted, loops = index == walk->last;
    grammar_node all = may_end ? grammar_empty(reader->grammar) : grammar_never(reader->grammar), one;
    uint32_t rule = 0;

    if (*made != 0)
        return *made;
    if (index == form->most)
        return *made = all;
    if (loops && form->wanted > found && grammar_is_never(reader->grammar, form->items[form->fixed + 1 + which]))
        return *made = grammar_never(reader->grammar);
    if (loops) {
        rule = grammar_rule(reader->grammar);
        *made = grammar_refer(reader->grammar, rule);
    }
    for (uint32_t match = 0; match < (form->wanted > found ? 2 : 1); match++) {
        one = form->items[match * (form->fixed + 1) + which];
        if (!grammar_is_never(reader->grammar, one))
            all = schema_either(reader, all,
                                schema_join(reader, index > 0 ? with_comma(reader, one) : one,
                                            walk_items(walk, loops ? index : index + 1, found + match)));
    }
    if (loops)
        grammar_define(reader->grammar, rule, all);
    else
        *made = schema_shared(reader, all);
    return *made;
}

/* Arrays whose items are counted one by one. */
static bool counted_array(schema_reader *reader, array_form *form, grammar_node *out)
{
    array_walk walk = { .reader = reader, .form = form };
    uint32_t last = form->least > form->fixed ? form->least : form->fixed;
    bool good = true;

    if (form->most != GRAMMAR_MANY && form->most > last)
        last = form->most;
    last += form->most == GRAMMAR_MANY && last == 0; /* the first item has no comma */
    if (last > MAX_LISTED || form->wanted > MAX_LISTED / (last + 1))
        return schema_fail(reader, "contains", "more than 200 items");
    walk.last = form->most == GRAMMAR_MANY ? last : GRAMMAR_MANY;
    walk.made = calloc((size_t)(last + 1) * (form->wanted + 1), sizeof *walk.made);
    for (uint32_t i = 0; good && form->wanted > 0 && i <= form->fixed; i++)
        good = read_item(reader, form, i, form->contains, &form->items[form->fixed + 1 + i]);
    good = good && walk.made != NULL;
    if (good)
        *out = in_brackets(reader, "[", walk_items(&walk, 0, 0), "]");
    free(walk.made);
    return good || schema_fail(reader, "items", "out of memory");
}

/* The values that may follow when those in `used` have been written. */
static grammar_node walk_values(const schema_reader *reader, const json_t *values, const array_form *form,
                                uint32_t used, uint32_t count, grammar_node *made)
{
    /* in_order: `used` is the index of the next value that may follow, not a set of those written */
    const bool in_order = json_array_size(values) > MAX_SUBSETS;
    const uint32_t place = in_order ? used * (uint32_t)(json_array_size(values) + 1) + count : used;
    grammar_node all = count >= form->least ? grammar_empty(reader->grammar) : grammar_never(reader->grammar);

    if (made[place] != 0)
        return made[place];
    for (uint32_t i = in_order ? used : 0; count < form->most && i < json_array_size(values); i++) {
        const grammar_node one = schema_literal(reader, json_array_get(values, i));

        if (!in_order && (used >> i & 1) != 0)
            continue;
        all = schema_either(
            reader, all,
            schema_join(reader, count > 0 ? with_comma(reader, one) : one,
                        walk_values(reader, values, form, in_order ? i + 1 : used | 1u << i, count + 1, made)));
    }
    return made[place] = schema_shared(reader, all);
}

/* Arrays of different items. */
static bool unique_array(schema_reader *reader, const array_form *form, grammar_node *out)
{
    schema_list list = { .count = 0 };
    json_t *values = NULL;
    grammar_node *made = NULL;
    bool good = form->fixed == 0 && form->contains == NULL;
    size_t count;

    for (uint32_t i = 0; good && i < form->list->count; i++)
        good = schema_add(reader, &list, json_object_get(form->list->parts[i], "items"));
    if (good)
        values = reader->list_values(reader, &list);
    free(list.parts);
    count = json_array_size(values);
    if (values == NULL || count > MAX_LISTED) {
        json_decref(values);
        return schema_fail(reader, "uniqueItems", "supported for at most one item, or items of enum, const or boolean");
    }
    made = calloc(((size_t)1 << MAX_SUBSETS) + (count + 1) * (count + 2), sizeof *made);
    if (made != NULL)
        *out = in_brackets(reader, "[", walk_values(reader, values, form, 0, 0, made), "]");
    json_decref(values);
    free(made);
    return made != NULL || schema_fail(reader, "uniqueItems", "out of memory");
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
    form.items = calloc(2 * ((size_t)form.fixed + 1), sizeof *form.items);
    good = form.items != NULL;
    for (uint32_t i = 0; good && i <= form.fixed; i++) {
        good = read_item(reader, &form, i, NULL, &form.items[i]);
        if (good && form.fixed > 0)
            form.items[i] = schema_shared(reader, form.items[i]);
    }
    if (good && form.fixed == 0 && form.wanted == 0)
        *out = schema_list_of(reader, "[", form.items[0], "]", form.least, form.most);
    else
        good = good && counted_array(reader, &form, out);
    free(form.items);
    return good || schema_fail(reader, "items", "out of memory");
}

/* A named member of objects. */
typedef struct object_member {
    const char *name;
    grammar_node node; /* the name and its values; never: it must be missing */
    bool required;
} object_member;

typedef struct object_form {
    schema_reader *reader;
    const schema_list *list;
    object_member *members; /* [count] */
    uint32_t count;
    uint32_t least, most; /* members */
    uint32_t counted;     /* numbers of members are counted up to this one */
    grammar_node others;  /* members of other names; never: there can be none */
    grammar_node *made;   /* [(count + 1) * (counted + 1)], 0: not yet */
} object_form;

/* Adds the schemas of a part for a member. *known: a keyword other than unevaluatedProperties has it. */
static bool add_member_schemas(schema_reader *reader, json_t *part, const char *name, schema_list *list, bool *known)
{
    json_t *own = json_object_get(json_object_get(part, "properties"), name), *one;
    json_t *names = json_object_get(part, "propertyNames"), *text = NULL;
    bool found = own != NULL, fits = true, good = schema_add(reader, list, own);
    const char *pattern;

    json_object_foreach(json_object_get(part, "patternProperties"), pattern, one) {
        json_t *form = json_pack("{s:s}", "pattern", pattern);

        text = json_string(name);
        good = good && form != NULL && text != NULL && schema_check(reader, form, text, &fits) &&
               (!fits || schema_add(reader, list, one));
        found |= fits;
        json_decref(form);
        json_decref(text);
    }
    if (good && !found) {
        good = schema_add(reader, list, json_object_get(part, "additionalProperties"));
        found = json_object_get(part, "additionalProperties") != NULL;
    }
    *known |= found;
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
    bool known = false, good = text != NULL;
    grammar_node value = 0;

    for (uint32_t i = 0; good && i < form->list->count; i++)
        good = add_member_schemas(reader, form->list->parts[i], member->name, &list, &known);
    for (uint32_t i = 0; good && !known && i < form->list->count; i++)
        good = schema_add(reader, &list, json_object_get(form->list->parts[i], "unevaluatedProperties"));
    good = good && reader->make_value(reader, &list, &value);
    if (good)
        member->node =
            schema_shared(reader, schema_join(reader, schema_literal(reader, text),
                                              schema_join(reader, schema_words(reader, ":"),
                                                          schema_join(reader, schema_blank(reader), value))));
    json_decref(text);
    free(list.parts);
    return good;
}

static bool add_name(object_form *form, const char *name, bool required)
{
    for (uint32_t i = 0; i < form->count; i++)
        if (strcmp(form->members[i].name, name) == 0) {
            form->members[i].required |= required;
            return true;
        }
    if (form->count == MAX_NAMES)
        return schema_fail(form->reader, "properties", "more than 5000");
    if (!LIST_GROW(form->members, form->count))
        return schema_fail(form->reader, "properties", "out of memory");
    form->members[form->count++] = (object_member){ .name = name, .required = required };
    return true;
}

/* Adds the names that the keywords list, in their order. */
static bool add_names(object_form *form)
{
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
    return good;
}

/* Adds the members whose names match `pattern` (NULL: none of the patterns) and none of the other patterns. */
static bool add_others(object_form *form, const json_t *patterns, const char *pattern)
{
    schema_reader *reader = form->reader;
    json_t *taken = json_array(), *rules = json_pack("[{s:s}]", "type", "string"), *text = NULL;
    schema_list values = { .count = 0 }, names = { .count = 0 };
    grammar_node name = 0, value = 0;
    bool good = taken != NULL && rules != NULL;
    const char *other;
    json_t *one;

    for (uint32_t i = 0; good && i < form->count; i++)
        (void)json_array_append_new(taken, json_string(form->members[i].name));
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
        form->others = schema_either(reader, form->others,
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

/* Reads which members are permitted besides the named ones. If there are named members, others are written only if a
 * schema describes them or the minimum number of members requires them. */
static bool read_others(object_form *form)
{
    json_t *patterns = json_object();
    bool described = false, listed = false, good = patterns != NULL;
    const char *pattern;
    json_t *one;

    for (uint32_t i = 0; good && i < form->list->count; i++) {
        json_t *part = form->list->parts[i], *others = json_object_get(part, "additionalProperties");

        (void)json_object_update(patterns, json_object_get(part, "patternProperties"));
        described |= json_is_object(others) && json_object_size(others) > 0;
        listed |= json_object_get(json_object_get(part, "propertyNames"), "enum") != NULL ||
                  (json_object_get(part, "properties") != NULL && form->count == 0 && others == NULL) ||
                  json_object_get(part, "unevaluatedProperties") != NULL;
    }
    form->others = grammar_never(form->reader->grammar);
    if (good && !listed &&
        (form->count == 0 || described || json_object_size(patterns) > 0 || form->least > form->count)) {
        json_object_foreach(patterns, pattern, one) {
            good = good && add_others(form, patterns, pattern);
        }
        good = good && add_others(form, patterns, NULL);
        form->others = schema_shared(form->reader, form->others);
    }
    json_decref(patterns);
    return good;
}

/* Members of other names, after `count` members have been written. */
static grammar_node walk_others(const object_form *form, uint32_t count)
{
    const schema_reader *reader = form->reader;
    const bool is_full = form->most != GRAMMAR_MANY && count >= form->most;
    const uint32_t more = form->most == GRAMMAR_MANY ? GRAMMAR_MANY : is_full ? 0 : form->most - count;
    grammar_node some;

    if (is_full || grammar_is_never(reader->grammar, form->others))
        return count >= form->least ? grammar_empty(reader->grammar) : grammar_never(reader->grammar);
    /* Several of them may have the same name and be one member, so that they are sure to add only one. */
    if (count + 1 < form->least)
        return grammar_never(reader->grammar);
    some = grammar_repeat(reader->grammar, with_comma(reader, form->others),
                          count > 0 && count<form->least, count> 0 || more == GRAMMAR_MANY ? more : more - 1);
    if (count > 0)
        return some;
    some = schema_join(reader, form->others, some);
    return form->least == 0 ? schema_either(reader, grammar_empty(reader->grammar), some) : some;
}

/* The members from `index` on, after `count` members have been written. */
static grammar_node walk_members(object_form *form, uint32_t index, uint32_t count)
{
    const schema_reader *reader = form->reader;
    grammar_node *made = &form->made[index * (form->counted + 1) + count];
    const object_member *member = &form->members[index];
    const uint32_t more = count < form->counted ? count + 1 : count;
    grammar_node all = grammar_never(reader->grammar);

    if (*made != 0)
        return *made;
    if (index == form->count)
        return *made = schema_shared(reader, walk_others(form, count));
    if (!grammar_is_never(reader->grammar, member->node) && count < form->most)
        all = schema_join(reader, count > 0 ? with_comma(reader, member->node) : member->node,
                          walk_members(form, index + 1, more));
    if (!member->required)
        all = schema_either(reader, all, walk_members(form, index + 1, count));
    return *made = schema_shared(reader, all);
}

static bool write_object(object_form *form, grammar_node *out)
{
    const uint32_t named = form->count;

    form->counted = 1; /* whether there is a member */
    if (form->least > 0 || form->most < named || form->most != GRAMMAR_MANY)
        form->counted = named;
    if (form->counted < 1)
        form->counted = 1;
    if (form->counted > 1 && form->least == 0 && form->most == GRAMMAR_MANY)
        form->counted = 1;
    if (form->counted > MAX_COUNTED)
        return schema_fail(form->reader, "minProperties", "supported for at most 100 properties");
    form->made = calloc((size_t)(named + 1) * (form->counted + 1), sizeof *form->made);
    if (form->made == NULL)
        return schema_fail(form->reader, "properties", "out of memory");
    *out = in_brackets(form->reader, "{", walk_members(form, 0, 0), "}");
    free(form->made);
    return true;
}

bool schema_objects(schema_reader *reader, const schema_list *list, grammar_node *out)
{
    object_form form = { .reader = reader, .list = list, .most = GRAMMAR_MANY };
    bool good = schema_count(reader, list, "minProperties", true, &form.least) &&
                schema_count(reader, list, "maxProperties", false, &form.most) && add_names(&form);

    *out = grammar_never(reader->grammar);
    for (uint32_t i = 0; good && i < form.count; i++)
        good = read_member(&form, &form.members[i]);
    good = good && read_others(&form) && (form.most < form.least || write_object(&form, out));
    if (good && grammar_is_never(reader->grammar, *out) && form.least > form.count + 1)
        good = schema_fail(reader, "minProperties", "more than one property that the schema does not name");
    free(form.members);
    return good;
}
