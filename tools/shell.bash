# For the bash of `make shell`: the user's own settings, a prompt that says where one is, completion of our executables.
for file in /etc/bash.bashrc ~/.bashrc; do
  if [ -r "$file" ]; then . "$file"; fi
done
unset file
PS1=$KERNCAP_PROMPT
unset KERNCAP_PROMPT
# The last command's exit code is no error of the shell: make would say that it is.
trap 'exit 0' EXIT

# Asks an executable for its completion when it is first needed; 124 has bash try again with that.
_kerncap_completion() {
  local variable=_${1//-/_}_COMPLETE
  eval "$(env "${variable^^}=source_bash" "$1")" && return 124
}
complete -o default -F _kerncap_completion \
  kc-{assemble,capture,extract,generate,locate,profile,replay,show,softgpu,store,validate} kerncap kerncap-mcp kerncap-replay
