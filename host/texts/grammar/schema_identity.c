/* Which schema each $ref of a document means: schemas have names by $id, $anchor and $dynamicAnchor, and an $id is also
 * the base of the references within (JSON Schema 2020-12, section 8.2; draft 7 has "#name" as $id). Nothing is fetched:
 * what no schema of the document is called refers to nothing. */
#include "texts/grammar/schema_internal.h"
#include "base/among.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of nested schemas; bytes of a base, which every name and reference within it repeats; of a schema, see
 * schema_spend(). */
enum { MAX_DEPTH = 500, MAX_BASE = 1000, STEPS = 16 };

/* A walk over the schemas of the document, the first one for names, the second one for references. */
typedef struct identity_walk {
    schema_reader *reader;
    json_t *dynamic;  /* how many schemas have each $dynamicAnchor */
    const char *root; /* the base of the document */
    bool resolves;
} identity_walk;

static bool walk(const identity_walk *self, json_t *schema, const char *base, uint32_t depth);

static bool is_absolute(const char *reference)
{
    const size_t bytes = strspn(reference, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");

    return bytes > 0 && reference[bytes] == ':';
}

/* The bytes of the base that a relative reference replaces nothing of (RFC 3986, section 5.2.2). */
static size_t kept_bytes(const char *base, const char *reference)
{
    const char *colon = strchr(base, ':'),
               *authority = colon != NULL && strncmp(colon + 1, "//", 2) == 0 ? colon + 3 : NULL;
    const char *path = authority != NULL ? authority + strcspn(authority, "/?") : base, *slash;

    if (reference[0] == '#' || reference[0] == '\0')
        return strlen(base);
    if (is_absolute(reference))
        return 0;
    if (strncmp(reference, "//", 2) == 0)
        return colon != NULL ? (size_t)(colon + 1 - base) : 0;
    if (reference[0] == '/')
        return (size_t)(path - base);
    slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash + 1 - base) : (size_t)(path - base);
}

/* The URI of a reference, without the fragment of an empty name; the caller frees it. NULL: out of memory. Paths with
 * "." and ".." are not shortened, so they refer to nothing. */
static char *resolve(const char *base, const char *reference)
{
    const size_t kept = kept_bytes(base, reference);
    size_t bytes = strlen(reference);
    char *uri = malloc(kept + bytes + 1);

    if (uri == NULL)
        return NULL;
    memcpy(uri, base, kept);
    memcpy(uri + kept, reference, bytes + 1);
    bytes += kept;
    if (bytes > 0 && uri[bytes - 1] == '#')
        uri[bytes - 1] = '\0';
    return uri;
}

/* Gives the schema this name; a name that two schemas have means neither. */
static bool add_name(const identity_walk *self, char *uri, json_t *schema)
{
    json_t *names = self->reader->names, *known = uri != NULL ? json_object_get(names, uri) : NULL;
    bool good = uri != NULL;

    if (good && known == NULL)
        good = json_object_set(names, uri, schema) == 0;
    else if (good && known != schema)
        good = json_object_set_new(names, uri, json_null()) == 0;
    free(uri);
    return good || schema_fail(self->reader, "$id", "out of memory");
}

static bool add_anchor(const identity_walk *self, json_t *schema, const char *keyword, const char *base)
{
    const char *name = json_string_value(json_object_get(schema, keyword));
    const size_t room = (name != NULL ? strlen(name) : 0) + 2;
    char *fragment = name != NULL ? malloc(room) : NULL, *uri;

    if (name == NULL)
        return true;
    if (fragment != NULL)
        (void)snprintf(fragment, room, "#%s", name);
    uri = fragment != NULL ? resolve(base, fragment) : NULL;
    free(fragment);
    return add_name(self, uri, schema);
}

/* The schema that a reference means with this base; NULL: none. */
static json_t *find(const identity_walk *self, const json_t *reference, const char *base)
{
    char *uri = resolve(base, json_string_value(reference)), *fragment = uri != NULL ? strchr(uri, '#') : NULL;
    json_t *found;

    if (fragment != NULL && fragment[1] == '/') {
        *fragment = '\0';
        found = schema_follow(json_object_get(self->reader->names, uri), fragment + 1);
    } else {
        found = uri != NULL ? json_object_get(self->reader->names, uri) : NULL;
    }
    free(uri);
    return found;
}

/* Notes what the $ref of a schema means. Draft 7 ignores an $id beside it, 2020-12 does not: if `outer`, the base
 * without that $id, makes it mean another schema, it means none. */
static bool add_target(const identity_walk *self, const json_t *reference, const char *base, const char *outer)
{
    json_t *target = find(self, reference, base);
    char key[32];

    if (target == NULL || target != find(self, reference, outer))
        target = json_null();
    (void)snprintf(key, sizeof key, "%p", (const void *)reference);
    return json_object_set(self->reader->targets, key, target) == 0 ||
           schema_fail(self->reader, "$ref", "out of memory");
}

static bool has_dynamic(const json_t *schema, const char *name)
{
    const char *own = json_string_value(json_object_get(schema, "$dynamicAnchor"));

    return own != NULL && strcmp(own, name) == 0;
}

/* Notes what the $dynamicRef of a schema means: what $ref would mean; if that is a $dynamicAnchor, the one of this name
 * in the outermost of the resources that lead here (2020-12, section 8.2.3.2). Each way begins at the root, so its
 * anchor is that one. If the root has none, and several other schemas do, it depends on the way. */
static bool add_dynamic_target(const identity_walk *self, const json_t *reference, const char *base)
{
    json_t *target = find(self, reference, base), *outermost = NULL;
    const char *fragment = strchr(json_string_value(reference), '#');
    char key[32], *uri;

    if (fragment != NULL && fragment[1] != '/' && has_dynamic(target, fragment + 1)) {
        uri = resolve(self->root, fragment);
        if (uri == NULL)
            return schema_fail(self->reader, "$dynamicRef", "out of memory");
        outermost = json_object_get(self->reader->names, uri);
        free(uri);
        if (has_dynamic(outermost, fragment + 1))
            target = outermost;
        else if (json_integer_value(json_object_get(self->dynamic, fragment + 1)) > 1)
            return schema_fail(self->reader, "$dynamicRef",
                               "several schemas have this $dynamicAnchor, but the root has not");
    }
    (void)snprintf(key, sizeof key, "%p", (const void *)reference);
    return json_object_set(self->reader->targets, key, target != NULL ? target : json_null()) == 0 ||
           schema_fail(self->reader, "$dynamicRef", "out of memory");
}

/* Counts the $dynamicAnchor of a schema. */
static bool count_dynamic(const identity_walk *self, const json_t *schema)
{
    const char *name = json_string_value(json_object_get(schema, "$dynamicAnchor"));

    return name == NULL ||
           json_object_set_new(self->dynamic, name,
                               json_integer(json_integer_value(json_object_get(self->dynamic, name)) + 1)) == 0 ||
           schema_fail(self->reader, "$dynamicAnchor", "out of memory");
}

/* The schemas in the value of a keyword. */
static bool walk_keyword(const identity_walk *self, const char *keyword, json_t *value, const char *base,
                         uint32_t depth)
{
    const char *name;
    json_t *one;
    size_t i;

    if (is_among(keyword, "properties patternProperties $defs definitions dependentSchemas dependencies"))
        json_object_foreach(value, name, one)
            if (!walk(self, one, base, depth + 1))
                return false;
    if (!is_among(keyword, "allOf anyOf oneOf prefixItems items additionalItems contains not if then else "
                           "additionalProperties propertyNames unevaluatedItems unevaluatedProperties"))
        return true;
    json_array_foreach(value, i, one)
        if (!walk(self, one, base, depth + 1))
            return false;
    return walk(self, value, base, depth + 1);
}

static bool walk(const identity_walk *self, json_t *schema, const char *base, uint32_t depth)
{
    const char *name = json_string_value(json_object_get(schema, "$id")), *keyword;
    const char *const outer = base;
    const json_t *reference = json_object_get(schema, "$ref"), *dynamic = json_object_get(schema, "$dynamicRef");
    char *own = NULL;
    json_t *value;
    bool good = true;

    if (!json_is_object(schema))
        return true;
    if (depth > MAX_DEPTH)
        return schema_fail(self->reader, "$id", "more than 500 nested schemas");
    if (!schema_spend(self->reader, STEPS) ||
        ((name != NULL || reference != NULL || dynamic != NULL || json_object_get(schema, "$anchor") != NULL ||
          json_object_get(schema, "$dynamicAnchor") != NULL) &&
         !schema_take(self->reader, 1 + strlen(base) / 64)))
        return false;
    if (name != NULL) {
        own = resolve(base, name);
        good = own != NULL || schema_fail(self->reader, "$id", "out of memory");
        good = good && (strlen(own) <= MAX_BASE || schema_fail(self->reader, "$id", "longer than 1,000 bytes"));
        if (good && !self->resolves)
            good = add_name(self, strdup(own), schema);
        if (good && name[0] != '#') /* draft 7: only a name */
            base = own;
        self->reader->has_names |= depth > 0;
    }
    if (good && !self->resolves)
        good = add_anchor(self, schema, "$anchor", base) && add_anchor(self, schema, "$dynamicAnchor", base) &&
               count_dynamic(self, schema);
    if (good && self->resolves && json_is_string(reference))
        good = add_target(self, reference, base, outer);
    if (good && self->resolves && json_is_string(dynamic))
        good = add_dynamic_target(self, dynamic, base);
    json_object_foreach(schema, keyword, value)
        good = good && walk_keyword(self, keyword, value, base, depth);
    free(own);
    return good;
}

bool schema_find_names(schema_reader *reader)
{
    const char *name = json_string_value(json_object_get(reader->root, "$id"));
    char *root = resolve("", name != NULL ? name : "");
    identity_walk self = { .reader = reader, .dynamic = json_object(), .root = root };
    bool good;

    reader->names = json_object();
    reader->targets = json_object();
    if (reader->names == NULL || reader->targets == NULL || self.dynamic == NULL || root == NULL) {
        good = schema_fail(reader, "$id", "out of memory");
    } else {
        good = add_name(&self, strdup(""), reader->root) && walk(&self, reader->root, "", 0);
        self.resolves = true;
        good = good && walk(&self, reader->root, "", 0);
    }
    json_decref(self.dynamic);
    free(root);
    return good;
}
