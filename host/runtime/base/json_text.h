/* base/json_text.h - texts of JSON objects. */
#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H
#include <jansson.h>

/* The text of a member; "" if it is not a string. */
static inline const char *json_text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}
#endif
