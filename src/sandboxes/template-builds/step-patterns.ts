/** Forms of what steps of a template build name, for the client that reads them and the service that runs them. */

export const OWNER_PATTERN = /^[A-Za-z0-9_.-]{1,64}(?::[A-Za-z0-9_.-]{1,64})?$/;
export const MODE_PATTERN = /^[0-7]{3,5}$/;
/** The name that objects treat in a way of their own is none. */
export const VARIABLE_PATTERN = /^(?!__proto__$)[A-Za-z_][A-Za-z0-9_]{0,255}$/;
