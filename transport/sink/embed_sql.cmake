# SPDX-License-Identifier: Apache-2.0
# cmake -DOUT=f.cpp -DFILES=a.sql;b.sql -P embed_sql.cmake: the schema files as C++ raw strings, in order.
set(text "// Generated from the .sql files beside embed_sql.cmake.\n#include \"transport/sink/schema.hpp\"\n\nnamespace tally::sink {\n\n")
string(APPEND text "const SchemaFile schema_files[] = {\n")
set(number 0)
foreach(file ${FILES})
  math(EXPR number "${number} + 1")
  file(READ "${file}" sql)
  # A raw string may hold at most 64 KiB; each of ours is far below.
  string(APPEND text "    {${number}, R\"sql(" "${sql}" ")sql\"},\n")
endforeach()
string(APPEND text "};\nconst std::size_t schema_file_count = ${number};\n\n}  // namespace tally::sink\n")
file(WRITE "${OUT}" "${text}")
