# Makes a C file of texts: cmake -DOUTPUT=page.c "-DTEXTS=page_css=a.css;page_js=b.js,c.js" -P embed.cmake
# Files of one text are joined by commas. Bytes are written as numbers, since C limits the length of string literals.
set(code "/* Made by embed.cmake from the files of page/. */\n#include \"explain/page.h\"\n")
foreach(text ${TEXTS})
  string(REPLACE "=" ";" parts "${text}")
  list(GET parts 0 name)
  list(GET parts 1 files)
  string(REPLACE "," ";" files "${files}")
  set(bytes "")
  foreach(file ${files})
    file(READ "${file}" hex HEX)
    string(APPEND bytes "${hex}")
  endforeach()
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "((0x..,){24})" "\\1\n" bytes "${bytes}") # lines that tools can read
  string(APPEND code "const char ${name}[] = {\n${bytes}0};\n")
endforeach()
file(WRITE "${OUTPUT}" "${code}")
