/* plugin/clash.h - names that two plugins have in common. Private to this folder.
 *
 * The first plugin with a name wins. A later one, such as an old copy that an upgrade left or a system file below the
 * user's own, is skipped and reported. If its note shows the clash, the file is not even mapped. */
#ifndef PLUGIN_CLASH_H
#define PLUGIN_CLASH_H
#include "plugin/module.h"

enum { CLASH_TEXT = 320 };

/* Have a file and the loaded module `first` a provider, an operator or the plugin's name in common? Writes the common
 * name, as in "provider 'x'". module: the module of the file; NULL if it is not loaded, so that only the facts of its
 * note count. Plugins within the program may have one name: a program may register several parts of itself. */
bool clash_find(const plugin_module *first, const note_facts *facts, const plugin_module *module,
                char text[CLASH_TEXT]);
/* Writes why the loaded file comes before the file at path, which has the same name and this version. Returns text. */
const char *clash_precedence(const plugin_file *first, const char *path, const char *version, char text[CLASH_TEXT]);
/* Are both files in the same folder? */
bool clash_same_folder(const char *a, const char *b);
#endif
