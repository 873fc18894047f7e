# embed.cmake - makes C arrays of text files, so that the library carries them.
#
# Run by the build (cmake -P) with
#   FILES   the files, with ; between, in ASCII; page.css becomes qkv__file_page_css, a string
#   OUT     the C file
set(out "/* Made by cmake/embed.cmake. */\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  string(MAKE_C_IDENTIFIER ${name} name)
  file(READ ${file} bytes HEX)
  if(bytes MATCHES "^(..)*[89a-f].(..)*$")
    message(FATAL_ERROR "${file}: ASCII expected; in JavaScript \\u221a is a character by number")
  endif()
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n"
    bytes "${bytes}")
  string(APPEND out "extern const char qkv__file_${name}[];\n")
  string(APPEND out "const char qkv__file_${name}[] = {\n${bytes}0};\n")
endforeach()
file(WRITE ${OUT} "${out}")
