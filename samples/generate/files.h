/* files.h - the files beside a model. */
#ifndef GENERATE_FILES_H
#define GENERATE_FILES_H
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum { MOST_ENDS = 8 };

/* Writes the path of the model's file: `given`, or if that is a folder as Hugging Face publishes it, the file in it of
 * that variant ("": by size). False: the folder has none, which is reported to stderr. */
bool files_model(const char *given, const char *variant, char out[PATH_MAX]);
/* Finds `name` in the model's folder or in the folder above; false: neither has it. */
bool files_find(const char *model, const char *name, char out[PATH_MAX]);
/* Reads the tokens that end a text, eos_token_id, one number or a list, from generation_config.json; if it is missing
 * there, from config.json. Returns their number; 0: none are known. */
uint32_t files_ends(const char *model, int64_t ends[MOST_ENDS]);
#endif
