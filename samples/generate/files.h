/* files.h - the files beside a model. */
#ifndef GENERATE_FILES_H
#define GENERATE_FILES_H
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum { MOST_ENDS = 8 };

/* Finds `name` in the model's folder or the one above; false: in neither. */
bool files_find(const char *model, const char *name, char out[PATH_MAX]);
/* Reads the tokens that end a text, eos_token_id, one number or a list, from generation_config.json; if it is missing
 * there, from config.json. Returns their number; 0: none are known. */
uint32_t files_ends(const char *model, int64_t ends[MOST_ENDS]);
#endif
