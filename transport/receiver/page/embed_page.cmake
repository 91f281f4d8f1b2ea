# SPDX-License-Identifier: Apache-2.0
# cmake -DOUT=f.cpp -DDIR=this folder -DUPLOT=folder or empty -P embed_page.cmake: the page's files as bytes.
set(entries "")
set(arrays "")
set(number 0)
function(embed path type file)
  file(READ "${file}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "const unsigned char file_${number}[] = {${bytes}0};\n")
  string(APPEND entries "    {\"${path}\", \"${type}\", {reinterpret_cast<const char*>(file_${number}), sizeof file_${number} - 1}},\n")
  math(EXPR number "${number} + 1")
  set(arrays "${arrays}" PARENT_SCOPE)
  set(entries "${entries}" PARENT_SCOPE)
  set(number "${number}" PARENT_SCOPE)
endfunction()

embed("/" "text/html; charset=utf-8" "${DIR}/index.html")
embed("/page/style.css" "text/css; charset=utf-8" "${DIR}/style.css")
foreach(script main query questions curve heatmap)
  embed("/page/${script}.js" "text/javascript; charset=utf-8" "${DIR}/${script}.js")
endforeach()
if(UPLOT)
  # Its licence travels with it.
  file(READ "${UPLOT}/LICENSE" licence)
  file(READ "${UPLOT}/uPlot.iife.min.js" script)
  file(WRITE "${OUT}.uplot.js" "/*\n${licence}*/\n${script}")
  embed("/page/uplot.js" "text/javascript; charset=utf-8" "${OUT}.uplot.js")
  embed("/page/uplot.css" "text/css; charset=utf-8" "${UPLOT}/uPlot.min.css")
endif()

file(WRITE "${OUT}.new" "// Generated from the files beside embed_page.cmake.\n#include \"transport/receiver/page/page.hpp\"\n\nnamespace tally::receiver {\n\n\
namespace {\n\n${arrays}\nconst PageFile files[] = {\n${entries}};\n\n}  // namespace\n\nstd::span<const PageFile> page_files() { return files; }\n\n}  // namespace tally::receiver\n")
file(RENAME "${OUT}.new" "${OUT}")
